import type { Pod, PodSpec, Volume } from '../objects.ts';
import { confinementRules } from './confinement-rules.ts';
import { containerRules } from './container-rules.ts';
import { duplicate, forbidden, invalid, required, type FieldPath, type Issue } from './issue.ts';
import { volumeSourceNames } from './volume-schema.ts';
import { isQuantity } from '../quantity.ts';

/** What a shape cannot say: rules between the fields of a pod whose every field has the right type. */
export function podRules(pod: Pod): Issue[] {
  const { spec } = pod;
  const at: FieldPath = ['spec'];
  const issues: Issue[] = [];
  if (spec.containers.length === 0) issues.push(required([...at, 'containers'], 'a pod needs a container'));
  const volumes = new Map((spec.volumes ?? []).map((volume) => [volume.name, volume]));
  for (const [index, container] of spec.containers.entries()) {
    issues.push(...containerRules(container, spec, volumes, [...at, 'containers', index]));
  }
  for (const [index, volume] of (spec.volumes ?? []).entries()) {
    issues.push(...volumeRules(volume, [...at, 'volumes', index]));
  }
  issues.push(
    ...hostPortRules(spec, at),
    ...dnsRules(spec, at),
    ...sysctlRules(spec, at),
    ...userNamespaceRules(spec, at),
  );
  issues.push(...confinementRules(spec.securityContext, [...at, 'securityContext']));
  if (spec.shareProcessNamespace === true && spec.hostPID === true) {
    issues.push(
      invalid([...at, 'shareProcessNamespace'], true, 'ShareProcessNamespace and HostPID cannot both be enabled'),
    );
  }
  return issues;
}

function volumeRules(volume: Volume, at: FieldPath): Issue[] {
  const issues: Issue[] = [];
  const given = volumeSourceNames.filter((name) => name in volume);
  for (const extra of given.slice(1)) {
    issues.push(forbidden([...at, extra], 'may not specify more than 1 volume type'));
  }
  const { sizeLimit } = volume.emptyDir ?? {};
  if (sizeLimit !== undefined && isQuantity(sizeLimit) && sizeLimit.startsWith('-')) {
    issues.push(invalid([...at, 'emptyDir', 'sizeLimit'], sizeLimit, 'must be greater than or equal to 0'));
  }
  const { path } = volume.hostPath ?? {};
  if (path?.split('/').includes('..') === true) {
    issues.push(invalid([...at, 'hostPath', 'path'], path, "must not contain '..'"));
  } else if (path?.startsWith('/') === false) {
    issues.push(invalid([...at, 'hostPath', 'path'], path, 'must be an absolute path'));
  }
  return issues;
}

/** Two containers of one pod cannot both have a port of the host. */
function hostPortRules(spec: PodSpec, at: FieldPath): Issue[] {
  const issues: Issue[] = [];
  const taken = new Set<string>();
  for (const [index, container] of spec.containers.entries()) {
    for (const [portIndex, port] of (container.ports ?? []).entries()) {
      const path = [...at, 'containers', index, 'ports', portIndex];
      const hostPort = port.hostPort ?? 0;
      if (hostPort === 0) continue;
      if (spec.hostNetwork === true && hostPort !== port.containerPort) {
        issues.push(invalid([...path, 'hostPort'], hostPort, 'must match `containerPort` when `hostNetwork` is true'));
      }
      const key = `${port.protocol ?? 'TCP'} ${port.hostIP ?? ''} ${hostPort}`;
      if (taken.has(key)) issues.push(duplicate([...path, 'hostPort'], hostPort));
      taken.add(key);
    }
  }
  return issues;
}

function dnsRules(spec: PodSpec, at: FieldPath): Issue[] {
  const issues: Issue[] = [];
  const { nameservers = [], searches = [] } = spec.dnsConfig ?? {};
  const path = [...at, 'dnsConfig'];
  if (spec.dnsPolicy === 'None' && nameservers.length === 0) {
    issues.push(
      required([...path, 'nameservers'], 'must provide at least one DNS nameserver when `dnsPolicy` is None'),
    );
  }
  // What resolv.conf can hold: the C library reads no more nameservers than three.
  if (nameservers.length > 3) {
    issues.push(invalid([...path, 'nameservers'], nameservers, 'must not have more than 3 nameservers'));
  }
  if (searches.length > 32) {
    issues.push(invalid([...path, 'searches'], searches, 'must not have more than 32 search paths'));
  }
  for (const [index, search] of searches.entries()) {
    if (/\s/.test(search)) issues.push(invalid([...path, 'searches', index], search, 'must not contain white space'));
  }
  for (const [index, option] of (spec.dnsConfig?.options ?? []).entries()) {
    // They become words of one line of resolv.conf.
    if (/\s/.test(`${option.name ?? ''}${option.value ?? ''}`)) {
      issues.push(invalid([...path, 'options', index], option.name, 'must not contain white space'));
    }
  }
  return issues;
}

/** Only sysctls of namespaces that are the pod's own: all others would change the host. */
function sysctlRules(spec: PodSpec, at: FieldPath): Issue[] {
  const issues: Issue[] = [];
  for (const [index, sysctl] of (spec.securityContext?.sysctls ?? []).entries()) {
    const path = [...at, 'securityContext', 'sysctls', index, 'name'];
    const name = sysctl.name.replaceAll('/', '.');
    const ofNet = name.startsWith('net.');
    const ofIpc = name.startsWith('kernel.shm') || name.startsWith('kernel.msg') || name.startsWith('fs.mqueue.');
    if (ofNet && spec.hostNetwork === true) {
      issues.push(invalid(path, sysctl.name, 'may not be specified when `hostNetwork` is true'));
    } else if ((ofIpc || name === 'kernel.sem') && spec.hostIPC === true) {
      issues.push(invalid(path, sysctl.name, 'may not be specified when `hostIPC` is true'));
    } else if (!ofNet && !ofIpc && name !== 'kernel.sem') {
      issues.push(forbidden(path, `${sysctl.name} is not namespaced: it would change the host`));
    }
  }
  return issues;
}

const HOST_NAMESPACES = ['hostNetwork', 'hostPID', 'hostIPC'] as const;
/** What a pod's user namespace has, from root on. */
const MAX_ID_INSIDE = 65_535;

/** With users of its own a pod has no namespace of the host's, and no user whom its namespace does not know. */
function userNamespaceRules(spec: PodSpec, at: FieldPath): Issue[] {
  if (spec.hostUsers !== false) return [];
  const issues = HOST_NAMESPACES.filter((name) => spec[name] === true).map((name) =>
    forbidden([...at, name], 'when `hostUsers` is false'),
  );
  const known = (path: FieldPath, id: number | undefined): void => {
    if (id === undefined || id <= MAX_ID_INSIDE) return;
    issues.push(invalid(path, id, `must be ${String(MAX_ID_INSIDE)} or less when \`hostUsers\` is false`));
  };
  const { runAsUser, runAsGroup, supplementalGroups = [] } = spec.securityContext ?? {};
  const path = [...at, 'securityContext'];
  known([...path, 'runAsUser'], runAsUser);
  known([...path, 'runAsGroup'], runAsGroup);
  for (const [n, id] of supplementalGroups.entries()) known([...path, 'supplementalGroups', n], id);
  for (const [n, { securityContext }] of spec.containers.entries()) {
    const context = [...at, 'containers', n, 'securityContext'];
    known([...context, 'runAsUser'], securityContext?.runAsUser);
    known([...context, 'runAsGroup'], securityContext?.runAsGroup);
  }
  return issues;
}
