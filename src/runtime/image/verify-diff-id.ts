import { createHash } from 'node:crypto';
import type { Op } from '../../lib/abort.ts';
import { GantryError } from '../../lib/errors.ts';
import { decompressed, type Compression } from './compression.ts';
import { algorithmOf, type Digest } from './digest.ts';

/** The digest of a blob's content without its compression. Throws DataLoss for a damaged one. */
export async function computeDiffId(
  op: Op,
  path: string,
  compression: Compression,
  algorithm: 'sha256' | 'sha512' = 'sha256',
): Promise<Digest> {
  const hash = createHash(algorithm);
  for await (const chunk of decompressed(path, compression, path)) {
    op.signal.throwIfAborted();
    hash.update(chunk);
  }
  return `${algorithm}:${hash.digest('hex')}` as Digest;
}

/** Throws DataLoss unless the blob unpacks to that layer. For a layer that is there already under another blob's name. */
export async function verifyDiffId(op: Op, path: string, compression: Compression, diffId: Digest): Promise<void> {
  const actual = await computeDiffId(op, path, compression, algorithmOf(diffId));
  if (actual !== diffId) throw wrongDiffId(diffId, actual);
}

export function wrongDiffId(expected: string, actual: string): GantryError {
  return new GantryError(
    'DataLoss',
    `wrong content: it unpacks to ${actual}, the image's configuration says ${expected}`,
    {
      details: { reason: 'wrong-diff-id', expected, actual },
    },
  );
}
