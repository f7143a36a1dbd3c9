import { MS } from './kernel-constants.ts';

const FLAGS = {
  ro: MS.RDONLY,
  nosuid: MS.NOSUID,
  nodev: MS.NODEV,
  noexec: MS.NOEXEC,
  sync: MS.SYNCHRONOUS,
  dirsync: MS.DIRSYNC,
  nosymfollow: MS.NOSYMFOLLOW,
  noatime: MS.NOATIME,
  nodiratime: MS.NODIRATIME,
  relatime: MS.RELATIME,
  strictatime: MS.STRICTATIME,
  remount: MS.REMOUNT,
  bind: MS.BIND,
  rbind: MS.BIND | MS.REC,
} as const;

/** mount(2)'s flags by the names that mount(8) and the OCI specification use. */
export type MountFlag = keyof typeof FLAGS;

export type Propagation =
  'private' | 'rprivate' | 'slave' | 'rslave' | 'shared' | 'rshared' | 'unbindable' | 'runbindable';

const PROPAGATIONS = {
  private: MS.PRIVATE,
  slave: MS.SLAVE,
  shared: MS.SHARED,
  unbindable: MS.UNBINDABLE,
} as const;

export function mountFlags(flags: readonly MountFlag[]): number {
  return flags.reduce((bits, flag) => bits | FLAGS[flag], 0);
}

export function propagationFlags(propagation: Propagation): {
  readonly propagation: number;
  readonly recursive: boolean;
} {
  const recursive = propagation.startsWith('r');
  const name = (recursive ? propagation.slice(1) : propagation) as keyof typeof PROPAGATIONS;
  return { propagation: PROPAGATIONS[name], recursive };
}
