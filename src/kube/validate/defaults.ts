import { isRecord } from './check-shape.ts';
import type { Container, KubeObject, New, Pod, PodSpec, Secret } from '../objects.ts';

/** Fills in what Kubernetes fills in. Changes the object that it is given. */
export function applyDefaults(object: New<KubeObject>): void {
  switch (object.kind) {
    case 'Pod':
      podDefaults((object as New<Pod>).spec);
      break;
    case 'Secret':
      foldStringData(object);
      (object as New<Secret>).type ??= 'Opaque';
      break;
    case 'ConfigMap':
    case 'Event':
    case 'Namespace':
    case 'Node':
      break;
  }
}

/** Moves the plain text of a Secret's `stringData` into `data`, where it is kept as base64. */
export function foldStringData<T extends object>(secret: T): T {
  const { data, stringData } = secret as { data?: Record<string, string>; stringData?: Record<string, string> };
  // Not yet checked when it is a patch: what is no map of texts is left to be complained about.
  if (!isRecord(stringData) || !Object.values(stringData).every((value) => typeof value === 'string')) return secret;
  const encoded = Object.entries(stringData).map(([key, value]): [string, string] => [
    key,
    Buffer.from(value).toString('base64'),
  ]);
  Reflect.deleteProperty(secret, 'stringData');
  return Object.assign(secret, { data: { ...data, ...Object.fromEntries(encoded) } });
}

function podDefaults(spec: PodSpec): void {
  spec.restartPolicy ??= 'Always';
  spec.dnsPolicy ??= 'ClusterFirst';
  spec.terminationGracePeriodSeconds ??= 30;
  spec.enableServiceLinks ??= true;
  spec.securityContext ??= {};
  for (const volume of spec.volumes ?? []) {
    if (Object.keys(volume).length === 1) volume.emptyDir = {};
    if (volume.configMap !== undefined) volume.configMap.defaultMode ??= 0o644;
    if (volume.secret !== undefined) volume.secret.defaultMode ??= 0o644;
    if (volume.hostPath !== undefined) volume.hostPath.type ??= '';
    if (volume.image !== undefined) volume.image.pullPolicy ??= pullPolicyOf(volume.image.reference ?? '');
  }
  for (const container of spec.containers) containerDefaults(container, spec);
}

function containerDefaults(container: Container, spec: PodSpec): void {
  container.imagePullPolicy ??= pullPolicyOf(container.image ?? '');
  container.resources ??= {};
  const { limits, requests } = container.resources;
  if (limits !== undefined) container.resources.requests = { ...limits, ...requests };
  for (const port of container.ports ?? []) {
    port.protocol ??= 'TCP';
    if (spec.hostNetwork === true) port.hostPort ??= port.containerPort;
  }
  for (const env of container.env ?? []) {
    if (env.valueFrom?.fieldRef !== undefined) env.valueFrom.fieldRef.apiVersion ??= 'v1';
  }
}

/** A tag that moves is looked up each time, as is an image without one. */
function pullPolicyOf(image: string): 'Always' | 'IfNotPresent' {
  if (image.includes('@')) return 'IfNotPresent';
  const last = image.slice(image.lastIndexOf('/') + 1);
  const colon = last.lastIndexOf(':');
  const tag = colon < 0 ? 'latest' : last.slice(colon + 1);
  return tag === 'latest' ? 'Always' : 'IfNotPresent';
}
