import { closeSync, openSync, readFileSync, statSync, unlinkSync, writeFileSync } from 'node:fs';
import { parentPort } from 'node:worker_threads';
import { faultsOfThisThread } from '../lib/fault-gate.ts';
import { errnoError, fromNodeError } from './errno.ts';
import { CLONE, MS, UMOUNT } from './kernel-constants.ts';
import { libc } from './libc.ts';
import type { CountersThreadRequest, PinnedKind, PinnedNamespaces, PinThreadRequest } from './namespaces.ts';
import { answerRequest, type PeerRequest } from './peer-protocol.ts';

/**
 * The thread of Namespaces. Everything is synchronous, so that all of it happens on this one thread: between
 * unshare and the way back nothing else may run here. The files of this thread are /proc/thread-self's.
 */

const CLONE_OF = { net: CLONE.NEWNET, ipc: CLONE.NEWIPC, uts: CLONE.NEWUTS } as const;
const ALL_KINDS = ['net', 'ipc', 'uts'] as const;

const [AF_INET, SOCK_DGRAM_CLOEXEC] = [2, 0o2000002];
const [SIOCGIFFLAGS, SIOCSIFFLAGS] = [0x8913, 0x8914];
const IFREQ_BYTES = 40;
const IFREQ_FLAGS_OFFSET = 16;
const IFF_UP = 1;

const faults = faultsOfThisThread();
const home = ALL_KINDS.map((kind) => ({ kind, fd: openSync(`/proc/thread-self/ns/${kind}`, 'r') }));

function check(result: number | bigint, what: string): number {
  if (result < 0) throw errnoError(libc.errno(), what);
  return Number(result);
}

function goHome(kinds: ReadonlySet<PinnedKind>): void {
  for (const { kind, fd } of home) {
    if (!kinds.has(kind)) continue;
    if (libc.setns(fd, CLONE_OF[kind]) < 0) {
      // A thread that cannot come back must serve nobody else.
      throw new Error(`the way back from a new ${kind} namespace failed (errno ${String(libc.errno())})`);
    }
  }
}

function bringUpLoopback(): void {
  const socket = check(libc.socket(AF_INET, SOCK_DGRAM_CLOEXEC, 0), 'open a socket');
  try {
    const request = Buffer.alloc(IFREQ_BYTES);
    request.write('lo');
    check(libc.ioctl(socket, SIOCGIFFLAGS, request), 'read the state of lo');
    request.writeUInt16LE(request.readUInt16LE(IFREQ_FLAGS_OFFSET) | IFF_UP, IFREQ_FLAGS_OFFSET);
    check(libc.ioctl(socket, SIOCSIFFLAGS, request), 'bring up lo');
  } finally {
    libc.close(socket);
  }
}

function pinOn(kind: PinnedKind | 'user', path: string, pinned: string[], holder = 'thread-self'): number {
  try {
    closeSync(openSync(path, 'wx', 0o444));
  } catch (error) {
    throw fromNodeError(error, `pin ${kind} namespace on ${path}`);
  }
  pinned.push(path);
  faults.pass('pin-namespace/file-made');
  check(libc.mount(`/proc/${holder}/ns/${kind}`, path, null, MS.BIND, null), `pin ${kind} namespace on ${path}`);
  faults.pass('pin-namespace/mounted');
  // A copy in somebody else's mount namespace would keep the pod's network alive (FAILURES.md row 40).
  check(libc.mount('none', path, null, MS.PRIVATE, null), `make ${path} private`);
  faults.pass('pin-namespace/pinned');
  return statSync(path).ino;
}

/** Into those of a process that has them already. */
function enter(pid: number, kinds: ReadonlySet<PinnedKind>): void {
  for (const kind of kinds) {
    const fd = openSync(`/proc/${String(pid)}/ns/${kind}`, 'r');
    try {
      check(libc.setns(fd, CLONE_OF[kind]), `enter the ${kind} namespace of a pod`);
    } finally {
      closeSync(fd);
    }
  }
}

function pin({ pins, hostname, sysctls, holder }: PinThreadRequest): PinnedNamespaces {
  const kinds = new Set(pins.map(({ kind }) => kind));
  const pinned: string[] = [];
  const inodes: Partial<Record<PinnedKind | 'user', number>> = {};
  const flags = pins.reduce((bits, { kind }) => bits | CLONE_OF[kind], 0);
  try {
    if (holder === undefined) check(libc.unshare(flags), 'make namespaces');
    else enter(holder.pid, kinds);
    if (kinds.has('net')) bringUpLoopback();
    if (kinds.has('uts') && hostname !== undefined) {
      check(libc.sethostname(hostname, Buffer.byteLength(hostname)), `set hostname ${hostname}`);
    }
    for (const { name, file, value } of sysctls) {
      try {
        writeFileSync(file, value, { flag: 'r+' });
      } catch (error) {
        throw fromNodeError(error, `set sysctl ${name}=${value}`);
      }
    }
    for (const { kind, path } of pins) inodes[kind] = pinOn(kind, path, pinned);
    if (holder !== undefined) inodes.user = pinOn('user', holder.userPath, pinned, String(holder.pid));
    return { inodes };
  } catch (error) {
    for (const path of pinned) {
      libc.umount2(path, UMOUNT.DETACH | UMOUNT.NOFOLLOW);
      unlinkSync(path);
    }
    throw error;
  } finally {
    goHome(kinds);
  }
}

function counters({ netns }: CountersThreadRequest): string {
  let fd: number;
  try {
    fd = openSync(netns, 'r');
  } catch (error) {
    throw fromNodeError(error, `open network namespace ${netns}`);
  }
  try {
    check(libc.setns(fd, CLONE.NEWNET), `enter network namespace ${netns}`);
  } finally {
    closeSync(fd);
  }
  try {
    return readFileSync('/proc/thread-self/net/dev', 'utf8');
  } finally {
    goHome(new Set(['net']));
  }
}

const answer = (request: PinThreadRequest | CountersThreadRequest): PinnedNamespaces | string =>
  'netns' in request ? counters(request) : pin(request);

parentPort?.on('message', (message: PeerRequest) => {
  void answerRequest(message, answer, (reply) => {
    parentPort?.postMessage(reply);
    if (!reply.ok && reply.error.message.startsWith('the way back')) process.exit(1);
  });
});
