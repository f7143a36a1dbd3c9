import { createHash } from 'node:crypto';
import { chmod, lstat, rename, unlink } from 'node:fs/promises';
import net from 'node:net';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { errnoOf, failedPrecondition, invalidArgument, messageOf, unavailable } from './errors.ts';
import { makeFolders } from './make-folders.ts';

/** Bytes of sockaddr_un's path, less the closing zero. */
const MAX_PATH_BYTES = 107;

/** The path in `unix:///run/x.sock`, `unix:/run/x.sock` or a plain absolute path. Throws InvalidArgument for anything else. */
export function unixSocketPath(address: string): string {
  const path = address.replace(/^unix:(\/\/)?/, '');
  if (!isAbsolute(path)) {
    throw invalidArgument(`${address}: not the address of a unix socket: unix:///absolute/path is wanted`);
  }
  const bytes = Buffer.byteLength(path);
  if (bytes > MAX_PATH_BYTES) {
    throw invalidArgument(`${path}: ${bytes} bytes are too long for a unix socket, at most ${MAX_PATH_BYTES} fit`);
  }
  return path;
}

export interface BoundSocket {
  readonly path: string;
  /** Takes the name away (unless another process has put its own there) and stops accepting. Open connections stay. */
  close(): Promise<void>;
}

/**
 * Lets `server` listen on a unix socket that only its owner may connect to (0600) from its first moment: it is bound under
 * another name and renamed. What a dead process left at `path` is replaced; its folder is made when missing.
 *
 * Throws FailedPrecondition when another process answers at `path`, or when something that is no socket is there.
 */
export async function listenUnix(server: net.Server, path: string): Promise<BoundSocket> {
  const folder = dirname(path);
  await makeFolders(folder, 0o755);
  await mustBeUnserved(path);
  const draft = await freeDraft(path);
  await new Promise<void>((resolve, reject) => {
    const onError = (error: Error): void => {
      reject(unavailable(`${path}: cannot listen there: ${messageOf(error)}`, { cause: error }));
    };
    server.once('error', onError);
    server.listen({ path: draft }, () => {
      server.removeListener('error', onError);
      resolve();
    });
  });
  try {
    await chmod(draft, 0o600);
    await rename(draft, path);
  } catch (error) {
    server.close();
    throw unavailable(`${path}: cannot listen there: ${messageOf(error)}`, { cause: error });
  }
  const ours = (await lstat(path, { bigint: true })).ino;
  return {
    path,
    close: async () => {
      const stat = await lstat(path, { bigint: true }).catch(() => undefined);
      if (stat?.ino === ours) await unlink(path).catch(() => undefined);
      // Its callback waits for every open connection: what becomes of those is the caller's affair.
      server.close();
    },
  };
}

/**
 * The same name each time, so that what a process left that was killed before it renamed it is replaced, too. As short as it is
 * because the path is limited.
 */
async function freeDraft(path: string): Promise<string> {
  const name = createHash('sha256').update(basename(path)).digest('hex').slice(0, 6);
  const draft = join(dirname(path), `.${name}`);
  const found = await lstat(draft).catch(() => undefined);
  if (found?.isSocket() === true) await unlink(draft).catch(() => undefined);
  return draft;
}

/** Throws FailedPrecondition when another process answers at `path`, or when something that is no socket is there. */
export async function mustBeUnserved(path: string): Promise<void> {
  let isSocket: boolean;
  try {
    isSocket = (await lstat(path)).isSocket();
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return;
    throw failedPrecondition(`${path}: ${messageOf(error)}`, { cause: error });
  }
  if (!isSocket) throw failedPrecondition(`${path} exists and is not a socket: it is left alone`);
  const errno = await new Promise<string | undefined>((resolve) => {
    const probe = net.connect({ path });
    probe.once('connect', () => {
      probe.destroy();
      resolve(undefined);
    });
    probe.once('error', (error) => resolve(errnoOf(error) ?? 'unknown'));
  });
  // Refused: the file outlived its process. Gone: somebody took it away just now. All else (a full backlog, too) is alive.
  if (errno === 'ECONNREFUSED' || errno === 'ENOENT') return;
  const why = errno === undefined ? '' : ` (${errno})`;
  throw failedPrecondition(`${path}: another process is serving on this socket${why}`);
}
