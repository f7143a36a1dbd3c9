import { readdir } from 'node:fs/promises';
import { errnoOf, invalidArgument } from '../lib/errors.ts';
import { errnoError, errnoName, fromNodeError } from './errno.ts';
import { callAsync, libc } from './libc.ts';

const [AF_INET, SOCK_DGRAM_CLOEXEC] = [2, 0o2000002];
const [SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCBRDELBR] = [0x8913, 0x8914, 0x89a1];
const IFREQ_BYTES = 40;
const IFREQ_FLAGS_OFFSET = 16;
const IFF_UP = 1;
const IFNAMSIZ = 16;

/** Names of the interfaces plugged into a bridge; undefined when there is no such bridge. */
export async function bridgePorts(bridge: string): Promise<string[] | undefined> {
  checkName(bridge);
  try {
    return await readdir(`/sys/class/net/${bridge}/brif`);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw fromNodeError(error, `look at bridge ${bridge}`);
  }
}

/** Names of the bridges of this network namespace. */
export async function listBridges(): Promise<string[]> {
  const bridges: string[] = [];
  for (const name of await readdir('/sys/class/net')) {
    if ((await bridgePorts(name)) !== undefined) bridges.push(name);
  }
  return bridges;
}

/** Takes a bridge down and away. Gone already is fine. */
export async function deleteBridge(bridge: string): Promise<void> {
  checkName(bridge);
  const socket = Number(libc.socket(AF_INET, SOCK_DGRAM_CLOEXEC, 0));
  if (socket < 0) throw errnoError(libc.errno(), 'open a socket');
  try {
    const request = Buffer.alloc(IFREQ_BYTES);
    request.write(bridge);
    if (!(await control(socket, SIOCGIFFLAGS, request, `look at ${bridge}`))) return;
    request.writeUInt16LE(request.readUInt16LE(IFREQ_FLAGS_OFFSET) & ~IFF_UP, IFREQ_FLAGS_OFFSET);
    await control(socket, SIOCSIFFLAGS, request, `take down ${bridge}`);
    await control(socket, SIOCBRDELBR, request, `delete bridge ${bridge}`);
  } finally {
    libc.close(socket);
  }
}

/** False when there is no such interface. The kernel's lock for network changes may be taken for a while: not on the main thread. */
async function control(socket: number, request: number, argument: Buffer, what: string): Promise<boolean> {
  const { result, errno } = await callAsync(libc.ioctl, socket, request, argument);
  if (result >= 0) return true;
  if (['ENODEV', 'ENXIO'].includes(errnoName(errno))) return false;
  throw errnoError(errno, what);
}

function checkName(name: string): void {
  if (name.length >= IFNAMSIZ || !/^[^\s/:]+$/.test(name)) throw invalidArgument(`${name}: not an interface name`);
}
