import { dirname } from 'node:path';
import type { Op } from '../../../lib/abort.ts';
import { errnoOf, failedPrecondition, isKind, messageOf } from '../../../lib/errors.ts';
import type { VolumePlugin } from '../plugin.ts';

export const HOST_PATH_PLUGIN = 'kubernetes.io/host-path';

/** Calls by path that a dead network share cannot hold for ever, nor a thread of the daemon with them (`linux/host-files`). */
export interface HostCalls {
  /** Throws NotFound. */
  stat(op: Op, path: string): Promise<{ readonly mode: number }>;
  /** With those above it. */
  mkdir(op: Op, path: string, mode: number): Promise<void>;
  makeFile(op: Op, path: string, mode: number): Promise<void>;
}

const S_IFMT = 0o170_000;

const KINDS: Readonly<Record<string, { readonly bits: number; readonly words: string }>> = {
  Directory: { bits: 0o040_000, words: 'a directory' },
  File: { bits: 0o100_000, words: 'a file' },
  Socket: { bits: 0o140_000, words: 'a socket' },
  CharDevice: { bits: 0o020_000, words: 'a character device' },
  BlockDevice: { bits: 0o060_000, words: 'a block device' },
};

/** A path of the host itself. Nothing is mounted for it and nothing of it is ever deleted. */
export function hostPathPlugin(host: HostCalls): VolumePlugin {
  return {
    name: HOST_PATH_PLUGIN,
    refreshes: false,
    supports: (volume) => volume.hostPath !== undefined,
    setUp: async (op, { volume }) => {
      const { path, type = '' } = volume.hostPath ?? { path: '' };
      if (!path.startsWith('/') || path.split('/').includes('..')) {
        throw failedPrecondition(`hostPath ${path} should be an absolute path without ".."`);
      }
      await check(op, host, path, type);
      return path;
    },
    tearDown: () => Promise.resolve({ kind: 'gone' }),
  };
}

async function check(op: Op, host: HostCalls, path: string, type: string): Promise<void> {
  if (type === '') return;
  const wanted = type === 'DirectoryOrCreate' ? 'Directory' : type === 'FileOrCreate' ? 'File' : type;
  const kind = KINDS[wanted];
  if (kind === undefined) throw failedPrecondition(`hostPath type ${type} is unknown`);
  let mode: number;
  try {
    ({ mode } = await host.stat(op, path));
  } catch (error) {
    if (!isKind(error, 'NotFound')) throw error;
    if (wanted === type)
      throw failedPrecondition(`hostPath type check failed: ${path} is not ${kind.words}: it does not exist`);
    await create(op, host, path, type);
    return;
  }
  if ((mode & S_IFMT) !== kind.bits)
    throw failedPrecondition(`hostPath type check failed: ${path} is not ${kind.words}`);
}

async function create(op: Op, host: HostCalls, path: string, type: string): Promise<void> {
  try {
    if (type === 'DirectoryOrCreate') await host.mkdir(op, path, 0o755);
    // The file alone, as in Kubernetes: a slip in the path must not leave folders on the host.
    else await host.makeFile(op, path, 0o644);
  } catch (error) {
    op.signal.throwIfAborted();
    const noFolder = type === 'FileOrCreate' && errnoOf(error) === 'ENOENT';
    const why = noFolder ? `there is no folder ${dirname(path)}` : messageOf(error);
    throw failedPrecondition(`hostPath type ${type}: ${path} cannot be made: ${why}`, { cause: error });
  }
}
