import { chmod, lstat, mkdtemp, rename, rmdir, unlink } from 'node:fs/promises';
import net from 'node:net';
import path from 'node:path';
import { alreadyExists, errnoOf, invalidArgument, unavailable, withContext } from '../../lib/errors.ts';

export type ListenAddress =
  | { readonly kind: 'unix'; readonly path: string }
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number };

const MAX_SOCKET_PATH = 98;
const LOOPBACK: readonly string[] = ['127.0.0.1', '::1', 'localhost'];

/**
 * Reads `unix:///run/gantry/api.sock` or `http://127.0.0.1:8080` (`tcp://` is the same). Only loopback: whoever reaches
 * this API can become root on the machine.
 *
 * @throws InvalidArgument
 */
export function parseListenAddress(text: string): ListenAddress {
  if (text.startsWith('unix://')) {
    const socket = text.slice('unix://'.length);
    if (!path.isAbsolute(socket)) throw invalidArgument(`${text}: the path of a socket must be absolute`);
    // sockaddr_un.sun_path has 108 bytes, and the private folder takes nine of them.
    if (Buffer.byteLength(socket) > MAX_SOCKET_PATH)
      throw invalidArgument(`${text}: longer than a socket's path may be (${MAX_SOCKET_PATH} bytes)`);
    return { kind: 'unix', path: socket };
  }
  const match = /^(?:http|tcp):\/\/(\[[0-9a-fA-F:]+\]|[^:/[\]]+):([0-9]{1,5})\/?$/.exec(text);
  if (match === null) throw invalidArgument(`${text}: must be unix:///PATH or http://127.0.0.1:PORT`);
  const host = (match[1] ?? '').replaceAll(/[[\]]/g, '');
  const port = Number(match[2]);
  if (port > 65535) throw invalidArgument(`${text}: there is no port ${port}`);
  if (!LOOPBACK.includes(host)) {
    throw invalidArgument(`${text}: this API gives full power over the machine and listens on loopback addresses only`);
  }
  return { kind: 'tcp', host, port };
}

export interface Listening {
  /** As a client would give it; with the real port if 0 was asked for. */
  readonly address: string;
  /** Takes the socket away. The server itself is closed by its owner. */
  close(): Promise<void>;
}

/**
 * Starts to listen. A unix socket is bound in a private folder, made 0600 and then moved to its place, so that there is no
 * moment at which others could connect, and a stale one from a killed process is replaced in one step.
 *
 * @throws AlreadyExists if somebody serves on that socket, Unavailable if the port is taken or the folder is not there
 */
export async function listenOn(server: net.Server, address: ListenAddress): Promise<Listening> {
  if (address.kind === 'tcp') return await listenTcp(server, address.host, address.port);
  if (await isServed(address.path)) throw alreadyExists(`${address.path}: another process serves on this socket`);
  let folder: string;
  try {
    folder = await mkdtemp(`${address.path}.`);
  } catch (error) {
    throw withContext(`cannot make the socket ${address.path}`, error);
  }
  const fresh = path.join(folder, 's');
  let inode: number | undefined;
  try {
    await listening(server, { path: fresh });
    await chmod(fresh, 0o600);
    inode = (await lstat(fresh)).ino;
    await rename(fresh, address.path);
  } finally {
    await unlink(fresh).catch(() => undefined);
    await rmdir(folder).catch(() => undefined);
  }
  return {
    address: `unix://${address.path}`,
    close: async () => {
      // A successor may have put its own there already.
      const found = await lstat(address.path).catch(() => undefined);
      if (found?.ino === inode) await unlink(address.path).catch(() => undefined);
    },
  };
}

async function listenTcp(server: net.Server, host: string, port: number): Promise<Listening> {
  await listening(server, { host, port });
  const bound = server.address();
  const realPort = typeof bound === 'object' && bound !== null ? bound.port : port;
  const shown = host.includes(':') ? `[${host}]` : host;
  return { address: `http://${shown}:${realPort}`, close: () => Promise.resolve() };
}

function listening(server: net.Server, where: net.ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error): void => {
      const place = where.path ?? `${where.host ?? ''}:${where.port ?? ''}`;
      reject(unavailable(`cannot listen on ${place}: ${errnoOf(error) ?? error.message}`, { cause: error }));
    };
    server.once('error', onError);
    server.listen(where, () => {
      server.off('error', onError);
      resolve();
    });
  });
}

function isServed(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = net.connect(socket);
    const answer = (served: boolean): void => {
      probe.destroy();
      resolve(served);
    };
    probe.once('connect', () => answer(true));
    probe.once('error', () => answer(false));
  });
}
