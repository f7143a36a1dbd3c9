import type { Op } from '../../lib/abort.ts';
import { GantryError } from '../../lib/errors.ts';
import { algorithmOf, digestOf, type Digest } from './digest.ts';
import type { Descriptor } from './manifest.ts';

/** Where the content of an image comes from: a registry, an archive, a folder. Everything it gives out is verified. */
export interface ContentSource {
  /** Small content (manifests, configurations) whole. Throws NotFound, DataLoss. */
  read(op: Op, descriptor: Descriptor): Promise<Buffer>;
  /** Puts content into a new file at `path`. Throws NotFound, DataLoss. `onBytes` gets the bytes there so far. */
  save(op: Op, descriptor: Descriptor, path: string, onBytes: (bytes: number) => void): Promise<void>;
}

/** Manifests and configurations that are larger are not what they say they are. */
export const LARGEST_DOCUMENT_BYTES = 4 * 1024 * 1024;

/** Throws DataLoss unless the data is what the descriptor says. */
export function verify(
  data: Uint8Array,
  { digest, sizeBytes }: Pick<Descriptor, 'digest' | 'sizeBytes'>,
  what: string,
): void {
  if (data.length !== sizeBytes) {
    throw new GantryError(
      'DataLoss',
      `${what} ${digest}: ${String(data.length)} bytes instead of ${String(sizeBytes)}`,
      {
        details: { reason: 'wrong-size', digest },
      },
    );
  }
  const actual = digestOf(data, algorithmOf(digest));
  if (actual !== digest) throw wrongDigest(what, digest, actual);
}

export function wrongDigest(what: string, expected: Digest, actual: string): GantryError {
  return new GantryError('DataLoss', `${what} ${expected}: wrong digest: its content is ${actual}`, {
    details: { reason: 'wrong-digest', expected, actual },
  });
}

export function tooLarge(what: string, digest: string): GantryError {
  return new GantryError('DataLoss', `${what} ${digest}: larger than ${String(LARGEST_DOCUMENT_BYTES)} bytes`, {
    details: { reason: 'too-large', digest },
  });
}
