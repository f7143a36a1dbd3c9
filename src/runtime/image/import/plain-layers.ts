import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { Transform } from 'node:stream';
import type { Op } from '../../../lib/abort.ts';
import { GantryError, internal } from '../../../lib/errors.ts';
import { wrongDigest, type ContentSource } from '../content-source.ts';
import { algorithmOf, hexOf, type Digest } from '../digest.ts';
import { localError } from '../ingest.ts';
import type { Descriptor } from '../manifest.ts';
import { OCI_LAYER } from '../media-types.ts';
import type { ImageLayer } from '../resolve-image.ts';

/** An uncompressed layer: how to read it, and about how long it is, for progress. */
export interface PlainLayer {
  readonly diffId: Digest;
  readonly sizeBytes: number;
  readonly open: () => AsyncIterable<Buffer>;
}

/** A layer that is known by what is in it alone: its blob is the uncompressed archive. */
export function plainImageLayer({ diffId, sizeBytes }: Pick<PlainLayer, 'diffId' | 'sizeBytes'>): ImageLayer {
  return { diffId, blob: { mediaType: OCI_LAYER, digest: diffId, sizeBytes } };
}

/** Layers without manifests: what archives of `docker save` and root file systems have. */
export class PlainLayerSource implements ContentSource {
  readonly #layers: ReadonlyMap<string, PlainLayer>;

  constructor(layers: readonly PlainLayer[]) {
    this.#layers = new Map(layers.map((layer) => [layer.diffId, layer]));
  }

  read(): Promise<Buffer> {
    return Promise.reject(internal('an archive without manifests has no documents to read'));
  }

  async save(op: Op, { digest }: Descriptor, path: string, onBytes: (bytes: number) => void): Promise<void> {
    const layer = this.#layers.get(digest);
    if (layer === undefined) throw internal(`layer ${digest} is not in the archive`);
    const actual = await copyHashed(op, layer.open(), path, digest, onBytes);
    if (actual !== digest) throw wrongDigest('layer', digest, actual);
  }
}

/** Writes a stream to a new file and returns its digest. */
export async function copyHashed(
  op: Op,
  source: AsyncIterable<Buffer>,
  path: string,
  like: Digest,
  onBytes: (bytes: number) => void,
): Promise<Digest> {
  const hash = createHash(algorithmOf(like));
  let bytes = 0;
  const count = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk);
      bytes += chunk.length;
      onBytes(bytes);
      done(null, chunk);
    },
  });
  try {
    await pipeline(source, count, createWriteStream(path, { mode: 0o600 }), { signal: op.signal });
  } catch (error) {
    if (op.signal.aborted) op.signal.throwIfAborted();
    throw error instanceof GantryError ? error : localError(path, error);
  }
  const digest = `${algorithmOf(like)}:${hash.digest('hex')}` as Digest;
  return hexOf(digest) === hexOf(like) ? like : digest;
}
