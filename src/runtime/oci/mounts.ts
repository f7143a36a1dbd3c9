import { posix } from 'node:path';
import { invalidArgument } from '../../lib/errors.ts';
import type { IdMapping } from '../../linux/id-mappings.ts';
import type { ContainerSpecInput, MountInput } from './container-spec-input.ts';
import type { OciIdMapping, OciMount } from './spec.ts';

/** What the image's own file system lies under, before anything of the pod's. */
function baseMounts(input: ContainerSpecInput): OciMount[] {
  const access = input.privileged === true ? 'rw' : 'ro';
  return [
    { destination: '/proc', type: 'proc', source: 'proc', options: ['nosuid', 'noexec', 'nodev'] },
    {
      destination: '/dev',
      type: 'tmpfs',
      source: 'tmpfs',
      options: ['nosuid', 'strictatime', 'mode=755', 'size=65536k'],
    },
    {
      destination: '/dev/pts',
      type: 'devpts',
      source: 'devpts',
      options: ['nosuid', 'noexec', 'newinstance', 'ptmxmode=0666', 'mode=0620', 'gid=5'],
    },
    { destination: '/dev/mqueue', type: 'mqueue', source: 'mqueue', options: ['nosuid', 'noexec', 'nodev'] },
    { destination: '/sys', type: 'sysfs', source: 'sysfs', options: ['nosuid', 'noexec', 'nodev', access] },
    {
      destination: '/sys/fs/cgroup',
      type: 'cgroup',
      source: 'cgroup',
      options: ['nosuid', 'noexec', 'nodev', 'relatime', access],
    },
    input.shmPath === undefined
      ? {
          destination: '/dev/shm',
          type: 'tmpfs',
          source: 'shm',
          options: ['nosuid', 'noexec', 'nodev', 'mode=1777', 'size=65536k'],
        }
      : { destination: '/dev/shm', type: 'bind', source: input.shmPath, options: ['rbind', 'rprivate', 'rw'] },
  ];
}

function podFiles(input: ContainerSpecInput): OciMount[] {
  const access = input.readOnlyRootfs === true ? 'ro' : 'rw';
  const files: readonly (readonly [string, string | undefined])[] = [
    ['/etc/hostname', input.hostnamePath],
    ['/etc/hosts', input.hostsPath],
    ['/etc/resolv.conf', input.resolvConfPath],
  ];
  return files.flatMap(([destination, source]) =>
    source === undefined ? [] : [{ destination, type: 'bind', source, options: ['rbind', 'rprivate', access] }],
  );
}

function ownMount(mount: MountInput): OciMount {
  if (!posix.isAbsolute(mount.containerPath)) {
    throw invalidArgument(`mount path ${JSON.stringify(mount.containerPath)}: must be absolute`);
  }
  if (!posix.isAbsolute(mount.hostPath)) {
    throw invalidArgument(`mount source ${JSON.stringify(mount.hostPath)}: must be absolute`);
  }
  const destination = cleanPath(mount.containerPath);
  if (destination === '/') throw invalidArgument('nothing can be mounted over the root of a container');
  return {
    destination,
    type: 'bind',
    source: mount.hostPath,
    options: [
      'rbind',
      mount.propagation === undefined || mount.propagation === 'private' ? 'rprivate' : mount.propagation,
      mount.recursiveReadOnly === true ? 'rro' : mount.readOnly === true ? 'ro' : 'rw',
      ...(mount.idMappings === undefined ? [] : ['ridmap']),
    ],
    ...(mount.idMappings === undefined
      ? {}
      : { uidMappings: mount.idMappings.uids.map(ociMapping), gidMappings: mount.idMappings.gids.map(ociMapping) }),
  };
}

/** All mounts, outer ones first. One of the container's own replaces ours at the same place. */
export function containerMounts(input: ContainerSpecInput): readonly OciMount[] {
  const own = (input.mounts ?? []).map(ownMount);
  const taken = new Set(own.map((mount) => mount.destination));
  const ours = [...baseMounts(input), ...podFiles(input)].filter((mount) => !taken.has(mount.destination));
  return outerFirst([...ours, ...own]);
}

/** What is mounted in another mount comes after that. */
export function outerFirst(mounts: readonly OciMount[]): readonly OciMount[] {
  return mounts.toSorted((a, b) => depth(a.destination) - depth(b.destination));
}

/** Mounts can only be shared with, or follow, the host if the container's root does. */
export function rootfsPropagation(mounts: readonly MountInput[] = []): 'rshared' | 'rslave' | undefined {
  if (mounts.some((mount) => mount.propagation === 'rshared')) return 'rshared';
  return mounts.some((mount) => mount.propagation === 'rslave') ? 'rslave' : undefined;
}

function ociMapping({ containerId, hostId, length }: IdMapping): OciIdMapping {
  return { containerID: containerId, hostID: hostId, size: length };
}

function cleanPath(path: string): string {
  const normal = posix.normalize(path);
  return normal.length > 1 && normal.endsWith('/') ? normal.slice(0, -1) : normal;
}

function depth(path: string): number {
  return path.split('/').length;
}
