import { readdir, readlink } from 'node:fs/promises';
import { isBelow, readMountinfo, type MountInfo } from './mountinfo.ts';
import { listPids, namespaceOf, readComm } from './procfs.ts';

export interface Holder {
  readonly pid: number;
  readonly comm?: string;
}

/** A mount that another mount namespace has, and one of the processes that live there. */
export interface ForeignMount {
  readonly info: MountInfo;
  readonly mountNamespace: number;
  readonly holder: Holder;
}

/**
 * Mounts in other mount namespaces than our own that `pick` chooses from each one's table. Advisory: namespaces come and go
 * while this looks, and one held by a descriptor alone is not seen.
 */
export async function foreignMounts(
  pick: (infos: readonly MountInfo[]) => readonly MountInfo[],
): Promise<ForeignMount[]> {
  const seen = new Set([await namespaceOf('self', 'mnt')]);
  const found: ForeignMount[] = [];
  for (const pid of await listPids()) {
    const mountNamespace = await namespaceOf(pid, 'mnt');
    if (mountNamespace === undefined || seen.has(mountNamespace)) continue;
    const infos = await readMountinfo(pid).catch(() => undefined);
    // A process that has just ended shows nothing; another one of its namespace may.
    if (infos === undefined || infos.length === 0) continue;
    seen.add(mountNamespace);
    const picked = pick(infos);
    if (picked.length === 0) continue;
    const comm = await readComm(pid);
    const holder: Holder = comm === undefined ? { pid } : { pid, comm };
    found.push(...picked.map((info) => ({ info, mountNamespace, holder })));
  }
  return found;
}

/** Who else has this mounted: by file system, by mount point, or both. */
export async function holdersOf(wanted: {
  readonly device?: string;
  readonly mountPoint?: string;
}): Promise<ForeignMount[]> {
  return await foreignMounts((infos) =>
    infos.filter(
      (info) =>
        (wanted.device === undefined || info.device === wanted.device) &&
        (wanted.mountPoint === undefined || info.mountPoint === wanted.mountPoint),
    ),
  );
}

/** Processes that work in a directory or have something at or below it open: they make an unmount fail. */
export async function processesUsing(path: string, limit = 8): Promise<Holder[]> {
  const inside = (target: string | undefined): boolean =>
    target !== undefined && (target === path || isBelow(target, path));
  const holders: Holder[] = [];
  for (const pid of await listPids()) {
    if (holders.length >= limit) break;
    if (pid === process.pid) continue;
    if (!(await usesAny(pid, inside))) continue;
    const comm = await readComm(pid);
    holders.push(comm === undefined ? { pid } : { pid, comm });
  }
  return holders;
}

async function usesAny(pid: number, inside: (target: string | undefined) => boolean): Promise<boolean> {
  const directory = `/proc/${String(pid)}`;
  // Reading the links asks the kernel for names only and touches no file system behind them.
  for (const name of ['cwd', 'root', 'exe']) {
    if (inside(await readlink(`${directory}/${name}`).catch(() => undefined))) return true;
  }
  for (const fd of await readdir(`${directory}/fd`).catch(() => [])) {
    if (inside(await readlink(`${directory}/fd/${fd}`).catch(() => undefined))) return true;
  }
  return false;
}
