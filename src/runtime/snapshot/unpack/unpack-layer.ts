import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { canceled, GantryError, invalidArgument } from '../../../lib/errors.ts';
import { fromNodeError } from '../../../linux/errno.ts';
import type { FileSyscalls } from '../../../linux/syscalls.ts';
import { TarParser } from '../tar/tar-parser.ts';
import { compressionOfFile, damagedStream, decompressor } from './decompress.ts';
import { LayerTree } from './layer-tree.ts';
import { LayerWriter, type LayerFacts } from './layer-writer.ts';
import { UnpackBudget, type UnpackLimits } from './unpack-limits.ts';

export interface UnpackedTree extends LayerFacts {
  /** `sha256:…` of the uncompressed stream, to its very end. */
  readonly diffId: string;
  /** Content of the files. */
  readonly bytes: number;
  readonly entries: number;
}

export interface UnpackLayerOptions {
  readonly sys: FileSyscalls;
  /** An empty directory. */
  readonly target: string;
  readonly limits: UnpackLimits;
  readonly signal: AbortSignal;
  /** Default: sha256. */
  readonly algorithm?: DigestAlgorithm;
}

/** What the OCI allows a diffId to be made with. */
export type DigestAlgorithm = 'sha256' | 'sha512';

const READ_BYTES = 512 << 10;

/** Takes an uncompressed archive piece by piece: hashes it, parses it, writes it below `target`. */
export class LayerUnpacker implements Disposable {
  readonly #algorithm: DigestAlgorithm;
  readonly #hash: Hash;
  readonly #budget: UnpackBudget;
  readonly #tree: LayerTree;
  readonly #writer: LayerWriter;
  readonly #parser: TarParser;

  constructor({ sys, target, limits, algorithm = 'sha256' }: UnpackLayerOptions) {
    this.#algorithm = algorithm;
    this.#hash = createHash(algorithm);
    this.#budget = new UnpackBudget(limits);
    this.#tree = new LayerTree(sys, target);
    this.#writer = new LayerWriter(sys, this.#tree, this.#budget);
    this.#parser = new TarParser(this.#writer);
  }

  write(chunk: Buffer): void {
    this.#budget.addStream(chunk.length);
    this.#hash.update(chunk);
    this.#parser.write(chunk);
  }

  finish(): UnpackedTree {
    if (this.#budget.streamBytes === 0) throw invalidArgument('the layer is empty: not even the end of an archive');
    this.#parser.finish();
    const facts = this.#writer.finish();
    const { bytes, entries } = this.#budget;
    return { ...facts, diffId: `${this.#algorithm}:${this.#hash.digest('hex')}`, bytes, entries };
  }

  [Symbol.dispose](): void {
    this.#writer.closeFile();
    this.#tree[Symbol.dispose]();
  }
}

/**
 * Unpacks a layer's blob (compressed or not) from a file.
 * @throws DataLoss for a damaged or cut stream, InvalidArgument for what no honest layer holds, ResourceExhausted for
 * too much of it or a full disk, Canceled.
 */
export async function unpackLayerFile(
  source: string,
  options: UnpackLayerOptions,
  onRead: (bytes: number) => void,
): Promise<UnpackedTree> {
  const compression = await compressionOfFile(source).catch((error: unknown) => {
    throw fromNodeError(error, `layer ${source}`);
  });
  using unpacker = new LayerUnpacker(options);
  const input = createReadStream(source, { highWaterMark: READ_BYTES });
  const transform = decompressor(compression);
  const consume = async (chunks: AsyncIterable<Buffer>): Promise<void> => {
    for await (const chunk of chunks) {
      unpacker.write(chunk);
      onRead(input.bytesRead);
    }
  };
  try {
    const { signal } = options;
    if (transform === undefined) await pipeline(input, consume, { signal });
    else await pipeline(input, transform, consume, { signal });
  } catch (error) {
    if (options.signal.aborted) throw canceled('unpacking the layer was canceled');
    if (error instanceof GantryError) throw error;
    throw damagedStream(error, compression) ?? fromNodeError(error, `layer ${source}`);
  }
  return unpacker.finish();
}
