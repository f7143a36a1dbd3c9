import { mkdir, statfs } from 'node:fs/promises';
import { Socket } from 'node:net';
import { join } from 'node:path';
import { errnoOf, unavailable } from '../lib/errors.ts';
import { namesIn, rmdirIfThere, unlinkIfThere } from '../lib/may-be-gone.ts';
import type { Cgroups } from '../linux/cgroups.ts';
import { hostSets } from '../linux/cpu-list.ts';
import type { Mounts } from '../linux/mounts.ts';
import type { NamespaceSockets } from '../linux/namespace-sockets.ts';
import type { Namespaces } from '../linux/namespaces.ts';
import { inodeOf, isAlive, processIdentity, wchan } from '../linux/procfs.ts';
import type { SafeRemove } from '../linux/safe-remove.ts';
import type { UnitCgroups } from '../linux/unit-cgroups.ts';
import type { CgroupTree, Folders, MountPoints, NamespacePins, PodSockets, ProcessLook, TreeRemover } from './parts.ts';

/** The runtime's parts over `linux/`: each a few words of ours for calls of theirs. */

const NSFS_MAGIC = 0x6e736673;

export function namespacePins(namespaces: Namespaces): NamespacePins {
  return {
    pin: async (op, { paths: { user, ...paths }, idMappings, hostname, sysctls }) => {
      const { inodes } = await namespaces.pinNamespaces(op, {
        ...paths,
        ...(user === undefined || idMappings === undefined ? {} : { user: { path: user, mappings: idMappings } }),
        ...(hostname === undefined ? {} : { hostname }),
        ...(sysctls === undefined ? {} : { sysctls }),
      });
      return (['user', 'net', 'ipc', 'uts'] as const).flatMap((kind) => {
        const path = kind === 'user' ? user : paths[kind];
        const inode = inodes[kind];
        return path === undefined || inode === undefined ? [] : [{ kind, path, inode: String(inode) }];
      });
    },
    unpin: (op, path) => namespaces.unpin(op, path),
    inodeOf: namespaceInode,
  };
}

export function podSockets(sockets: NamespaceSockets): PodSockets {
  return {
    open: (op, netnsPath, family) =>
      netnsPath === undefined
        ? Promise.resolve(new Socket({ allowHalfOpen: true }))
        : sockets.open(op, netnsPath, family),
  };
}

/** A pin that was taken off leaves a plain file: that is no namespace. */
async function namespaceInode(path: string): Promise<string | undefined> {
  try {
    if ((await statfs(path)).type !== NSFS_MAGIC) return undefined;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
  const inode = await inodeOf(path);
  return inode === undefined ? undefined : String(inode);
}

export function mountPoints(mounts: Mounts): MountPoints {
  return {
    tmpfs: (op, target, { sizeBytes, mode }) =>
      mounts.mount(op, {
        source: 'shm',
        target,
        type: 'tmpfs',
        flags: ['nosuid', 'noexec', 'nodev'],
        data: `mode=${mode.toString(8)},size=${String(sizeBytes)}`,
      }),
    unmount: async (op, target) => {
      await mounts.unmountAll(op, target, { detach: true });
    },
  };
}

export function cgroupTree(cgroups: Cgroups, unitCgroups: UnitCgroups): CgroupTree {
  return {
    exists: (path) => cgroups.exists(path),
    create: (op, path, limits) => unitCgroups.create(op, path, limits),
    procs: (path, recursive) => cgroups.procs(path, recursive),
    killAll: (op, path) => cgroups.killAll(op, path),
    thaw: (_op, path) => cgroups.thaw(path),
    remove: (op, path) => unitCgroups.remove(op, path),
    children: (path) => cgroups.children(path),
    hostSets,
    planLimits: (path, wanted, known) => cgroups.limits.plan(path, wanted, known),
    applyLimits: (changes) => unitCgroups.applyLimits(changes),
    takeLimitsBack: (changes) => unitCgroups.takeLimitsBack(changes),
  };
}

export const folders: Folders = {
  make: async (path, mode) => {
    await mkdir(path, { recursive: true, mode });
  },
  names: namesIn,
};

/**
 * What is left in these folders is known by name: a few files of ours, and mount points with nothing on them. Anything more than
 * that goes the careful way, which takes a thread and longer.
 */
async function removeKnown(path: string): Promise<boolean> {
  try {
    for (const name of ['resolv.conf', 'hosts', 'hostname']) await unlinkIfThere(join(path, name));
    for (const name of ['rootfs', 'shm', 'infra']) await rmdirIfThere(join(path, name));
    await rmdirIfThere(path);
    return true;
  } catch {
    return false;
  }
}

export function treeRemover(remover: SafeRemove): TreeRemover {
  return {
    remove: async (op, root, path) => {
      if (await removeKnown(path)) return;
      const outcome = await remover.remove(op, { root, path });
      if (outcome.kind !== 'blocked') return;
      throw unavailable(`${path} cannot be removed: ${outcome.blockers.map(({ message }) => message).join('; ')}`, {
        details: { blockers: outcome.blockers },
      });
    },
  };
}

export const processLook: ProcessLook = {
  alive: (pid, startTimeTicks) => isAlive({ pid, startTimeTicks }),
  describe: async (pids) => {
    const words = await Promise.all(
      pids.map(async (pid) => {
        const identity = await processIdentity(pid);
        if (identity === undefined) return undefined;
        const channel = await wchan(pid);
        return `pid ${String(pid)} (${identity.comm}) in state ${identity.state}${channel === undefined ? '' : `, waiting in ${channel}`}`;
      }),
    );
    return words.filter((word) => word !== undefined).join('; ');
  },
};
