import koffi from 'koffi';
import { readlink } from 'node:fs/promises';
import { errnoError } from '../../src/linux/errno.ts';
import { libc, type CFunction } from '../../src/linux/libc.ts';

/** Namespaces that the suite has to share with the runtime: it reaches the streaming server and host ports by loopback, and mounts what pods are to see. */
const SHARED = ['net', 'mnt', 'ipc'] as const;
const FLAG = { net: 'net', mnt: 'mount', ipc: 'ipc' } as const;

const [AF_UNIX, SOCK_STREAM_CLOEXEC, SOL_SOCKET, SO_PEERCRED] = [1, 0o2000001, 1, 17];
/** `struct sockaddr_un`: the family, and the path with its final zero. */
const ADDRESS_BYTES = 110;
/** `struct ucred`: pid, uid, gid. */
const CREDENTIALS_BYTES = 12;

const library = koffi.load('libc.so.6');
const connect: CFunction<[number, Uint8Array, number]> = library.func(
  'int connect(int fd, const uint8_t *address, uint32_t length)',
);
const getsockopt: CFunction<[number, number, number, Uint8Array, Uint8Array]> = library.func(
  'int getsockopt(int fd, int level, int name, _Out_ uint8_t *value, _Inout_ uint8_t *length)',
);

/**
 * The process that listens on a unix socket, as the kernel tells who connects to it: its name may be another by now than the one that it was
 * bound to. Throws when nobody listens.
 */
export function listenerOf(socket: string): number {
  const address = Buffer.alloc(ADDRESS_BYTES);
  address.writeUInt16LE(AF_UNIX, 0);
  address.write(socket, 2);
  const fd = Number(libc.socket(AF_UNIX, SOCK_STREAM_CLOEXEC, 0));
  if (fd < 0) throw errnoError(libc.errno(), 'open a socket');
  try {
    if (Number(connect(fd, address, address.length)) < 0) throw errnoError(libc.errno(), `connect to ${socket}`);
    const credentials = Buffer.alloc(CREDENTIALS_BYTES);
    const length = Buffer.alloc(4);
    length.writeUInt32LE(credentials.length);
    if (Number(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, credentials, length)) < 0) {
      throw errnoError(libc.errno(), `ask who listens on ${socket}`);
    }
    return credentials.readInt32LE(0);
  } finally {
    libc.close(fd);
  }
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
