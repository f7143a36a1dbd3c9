import type { Container, PodSpec, Volume, VolumeMount } from '../objects.ts';
import { confinementRules } from './confinement-rules.ts';
import { envRules } from './env-rules.ts';
import { duplicate, forbidden, invalid, missingTarget, required } from './issue.ts';
import type { FieldPath, Issue } from './issue.ts';
import { resourceRules } from './resource-rules.ts';

export function containerRules(
  container: Container,
  spec: PodSpec,
  volumes: ReadonlyMap<string, Volume>,
  at: FieldPath,
): Issue[] {
  const issues: Issue[] = [];
  const { image = '', workingDir = '' } = container;
  if (image !== image.trim()) {
    issues.push(invalid([...at, 'image'], image, 'must not have leading or trailing whitespace'));
  }
  if (workingDir !== '' && !workingDir.startsWith('/')) {
    issues.push(invalid([...at, 'workingDir'], workingDir, 'must be an absolute path'));
  }
  if (container.stdinOnce === true && container.stdin !== true) {
    issues.push(invalid([...at, 'stdinOnce'], true, 'means nothing without `stdin: true`'));
  }
  issues.push(
    ...envRules(container, at),
    ...portRules(container, at),
    ...resourceRules(container, at),
    ...mountRules(container, volumes, at),
    ...hookRules(container, spec, at),
    ...securityRules(container, at),
    ...procRules(container, spec, at),
    ...confinementRules(container.securityContext, [...at, 'securityContext']),
  );
  return issues;
}

function portRules(container: Container, at: FieldPath): Issue[] {
  const issues: Issue[] = [];
  const names = new Set<string>();
  for (const [index, { name = '' }] of (container.ports ?? []).entries()) {
    if (name === '') continue;
    if (names.has(name)) issues.push(duplicate([...at, 'ports', index, 'name'], name));
    names.add(name);
  }
  return issues;
}

function mountRules(container: Container, volumes: ReadonlyMap<string, Volume>, at: FieldPath): Issue[] {
  const issues: Issue[] = [];
  for (const [index, mount] of (container.volumeMounts ?? []).entries()) {
    const path = [...at, 'volumeMounts', index];
    const volume = volumes.get(mount.name);
    if (mount.name !== '' && volume === undefined) issues.push(missingTarget([...path, 'name'], mount.name));
    if ((mount.subPath ?? '') !== '' && volume !== undefined && volume.image === undefined) {
      issues.push(
        forbidden([...path, 'subPath'], 'not supported by Gantry: mounting a part of a volume that is no image'),
      );
    }
    issues.push(...mountPathRules(mount, [...path, 'mountPath']), ...recursiveRules(mount, path));
    if (mount.mountPropagation === 'Bidirectional' && container.securityContext?.privileged !== true) {
      issues.push(
        forbidden(
          [...path, 'mountPropagation'],
          'Bidirectional mount propagation is available only to privileged containers',
        ),
      );
    }
  }
  return issues;
}

function mountPathRules({ mountPath }: VolumeMount, path: FieldPath): Issue[] {
  if (mountPath === '') return [];
  if (mountPath.includes(':')) return [invalid(path, mountPath, "must not contain ':'")];
  if (!mountPath.startsWith('/')) return [invalid(path, mountPath, 'must be an absolute path')];
  if (mountPath.split('/').includes('..')) return [invalid(path, mountPath, "must not contain '..'")];
  return [];
}

/** A mount below that comes or goes later would be writable. */
function recursiveRules(mount: VolumeMount, at: FieldPath): Issue[] {
  const { recursiveReadOnly = 'Disabled', readOnly = false, mountPropagation = 'None' } = mount;
  if (!['IfPossible', 'Enabled'].includes(recursiveReadOnly)) return [];
  const path = [...at, 'recursiveReadOnly'];
  return [
    ...(readOnly ? [] : [forbidden(path, 'needs `readOnly: true`')]),
    ...(mountPropagation === 'None' ? [] : [forbidden(path, 'needs a `mountPropagation` of None')]),
  ];
}

function hookRules(container: Container, spec: PodSpec, at: FieldPath): Issue[] {
  const preStop = container.lifecycle?.preStop;
  if (preStop === undefined) return [];
  const path = [...at, 'lifecycle', 'preStop'];
  const { exec, sleep } = preStop;
  if (exec !== undefined && sleep !== undefined) {
    return [forbidden([...path, 'sleep'], 'may not specify more than 1 handler type')];
  }
  if (exec === undefined && sleep === undefined) return [required(path, 'must specify a handler type')];
  if (exec !== undefined && (exec.command ?? []).length === 0) return [required([...path, 'exec', 'command'])];
  const graceSeconds = spec.terminationGracePeriodSeconds ?? 30;
  if (sleep !== undefined && sleep.seconds > graceSeconds) {
    const why = `must be less than or equal to terminationGracePeriodSeconds (${graceSeconds})`;
    return [invalid([...path, 'sleep', 'seconds'], sleep.seconds, why)];
  }
  return [];
}

function securityRules(container: Container, at: FieldPath): Issue[] {
  const context = container.securityContext;
  if (context?.allowPrivilegeEscalation !== false) return [];
  const path = [...at, 'securityContext'];
  if (context.privileged === true) {
    return [invalid(path, '', 'cannot set `allowPrivilegeEscalation` to false and `privileged` to true')];
  }
  const added = (context.capabilities?.add ?? []).map((name) => name.toUpperCase().replace(/^CAP_/, ''));
  if (added.includes('SYS_ADMIN')) {
    return [invalid(path, '', 'cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN')];
  }
  return [];
}

function procRules({ securityContext }: Container, { hostUsers }: PodSpec, at: FieldPath): Issue[] {
  const { procMount } = securityContext ?? {};
  if (procMount !== 'Unmasked' || hostUsers === false) return [];
  return [invalid([...at, 'securityContext', 'procMount'], procMount, 'needs `hostUsers: false`')];
}
