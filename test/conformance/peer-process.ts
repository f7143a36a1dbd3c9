import { readdir, readFile, readlink, realpath } from 'node:fs/promises';
import { join } from 'node:path';

/** Namespaces that the suite has to share with the runtime: it reaches the streaming server and host ports by loopback, and mounts what pods are to see. */
const SHARED = ['net', 'mnt', 'ipc'] as const;
const FLAG = { net: 'net', mnt: 'mount', ipc: 'ipc' } as const;

/**
 * The process that listens on a unix socket, found by the socket's inode in the process table; undefined when nobody does. A network namespace
 * shows its own sockets only, so every process's is looked at. Needs root.
 */
export async function listenerOf(socket: string): Promise<number | undefined> {
  const path = await realpath(socket);
  for (const pid of await pids()) {
    const inode = listeningInode(await readFile(`/proc/${pid}/net/unix`, 'utf8').catch(() => ''), path);
    if (inode !== undefined && (await hasOpen(pid, `socket:[${inode}]`))) return Number(pid);
  }
  return undefined;
}

/** The command in front of another, to run that in the process's namespaces. Empty when it shares ours. */
export async function within(pid: number): Promise<string[]> {
  const flags: string[] = [];
  for (const name of SHARED) {
    const [theirs, ours] = await Promise.all([
      readlink(`/proc/${String(pid)}/ns/${name}`),
      readlink(`/proc/self/ns/${name}`),
    ]);
    if (theirs !== ours) flags.push(`--${FLAG[name]}=/proc/${String(pid)}/ns/${name}`);
  }
  return flags.length === 0 ? [] : ['nsenter', ...flags, '--'];
}

/** Of a line `0000: 00000002 00000000 00010000 0001 01 INODE PATH`, where the flags 00010000 say that somebody listens. */
export function listeningInode(table: string, path: string): string | undefined {
  for (const line of table.split('\n')) {
    const [, , , flags, , , inode, ...rest] = line.trim().split(/\s+/);
    if (flags === '00010000' && rest.join(' ') === path) return inode;
  }
  return undefined;
}

async function pids(): Promise<string[]> {
  return (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
}

async function hasOpen(pid: string, target: string): Promise<boolean> {
  const folder = `/proc/${pid}/fd`;
  for (const fd of await readdir(folder).catch(() => [])) {
    if ((await readlink(join(folder, fd)).catch(() => '')) === target) return true;
  }
  return false;
}
