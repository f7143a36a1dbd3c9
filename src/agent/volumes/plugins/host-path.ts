import { open } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Op } from '../../../lib/abort.ts';
import { errnoOf, failedPrecondition, isKind, messageOf } from '../../../lib/errors.ts';
import { makeFolders } from '../../../lib/make-folders.ts';
import type { VolumePlugin } from '../plugin.ts';

export const HOST_PATH_PLUGIN = 'kubernetes.io/host-path';

/** stat(2) that a dead network share cannot hold for ever (`linux/hang-safe`). Throws NotFound. */
export interface PathProbe {
  stat(op: Op, path: string): Promise<{ readonly mode: number }>;
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
export function hostPathPlugin(probe: PathProbe): VolumePlugin {
  return {
    name: HOST_PATH_PLUGIN,
    refreshes: false,
    supports: (volume) => volume.hostPath !== undefined,
    setUp: async (op, { volume }) => {
      const { path, type = '' } = volume.hostPath ?? { path: '' };
      if (!path.startsWith('/') || path.split('/').includes('..')) {
        throw failedPrecondition(`hostPath ${path} should be an absolute path without ".."`);
      }
      await check(op, probe, path, type);
      return path;
    },
    tearDown: () => Promise.resolve({ kind: 'gone' }),
  };
}

async function check(op: Op, probe: PathProbe, path: string, type: string): Promise<void> {
  if (type === '') return;
  const wanted = type === 'DirectoryOrCreate' ? 'Directory' : type === 'FileOrCreate' ? 'File' : type;
  const kind = KINDS[wanted];
  if (kind === undefined) throw failedPrecondition(`hostPath type ${type} is unknown`);
  let mode: number;
  try {
    ({ mode } = await probe.stat(op, path));
  } catch (error) {
    if (!isKind(error, 'NotFound')) throw error;
    if (wanted === type)
      throw failedPrecondition(`hostPath type check failed: ${path} is not ${kind.words}: it does not exist`);
    await create(path, type);
    return;
  }
  if ((mode & S_IFMT) !== kind.bits)
    throw failedPrecondition(`hostPath type check failed: ${path} is not ${kind.words}`);
}

async function create(path: string, type: string): Promise<void> {
  if (type === 'DirectoryOrCreate') {
    try {
      await makeFolders(path, 0o755);
    } catch (error) {
      throw failedPrecondition(`hostPath type ${type}: ${path} cannot be made: ${messageOf(error)}`, { cause: error });
    }
    return;
  }
  // The file alone, as in Kubernetes: a slip in the path must not leave folders on the host.
  try {
    const file = await open(path, 'a', 0o644);
    await file.close();
  } catch (error) {
    const why = errnoOf(error) === 'ENOENT' ? `there is no folder ${dirname(path)}` : messageOf(error);
    throw failedPrecondition(`hostPath type ${type}: ${path} cannot be made: ${why}`, { cause: error });
  }
}
