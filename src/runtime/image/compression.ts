import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { GantryError } from '../../lib/errors.ts';

export type Compression = 'none' | 'gzip' | 'zstd';

const BLOCK = 512;
const CHUNK_BYTES = 256 * 1024;

/** What a file's first bytes say: its compression, `tar` for an uncompressed archive, undefined for neither. */
export type Sniffed = 'gzip' | 'zstd' | 'tar' | undefined;

export function sniff(head: Uint8Array): Sniffed {
  const view = Buffer.from(head.buffer, head.byteOffset, head.byteLength);
  if (view.length >= 2 && view[0] === 0x1f && view[1] === 0x8b) return 'gzip';
  if (view.length >= 4) {
    const magic = view.readUInt32LE(0);
    // 0x184D2A5x are skippable frames, which seekable zstd layers may begin with.
    if (magic === 0xfd2fb528 || (magic & 0xfffffff0) >>> 0 === 0x184d2a50) return 'zstd';
  }
  if (view.length >= BLOCK && isTarHeader(view)) return 'tar';
  return undefined;
}

/** A tar header has a checksum, which old formats without `ustar` have as well; two zero blocks are an empty archive. */
function isTarHeader(view: Buffer): boolean {
  let sum = 0;
  let allZero = true;
  for (let i = 0; i < BLOCK; i++) {
    const byte = view[i] ?? 0;
    if (byte !== 0) allZero = false;
    sum += i >= 148 && i < 156 ? 0x20 : byte;
  }
  if (allZero) return true;
  const field = view
    .toString('latin1', 148, 156)
    .replace(/[\0 ]+$/, '')
    .trim();
  return /^[0-7]+$/.test(field) && parseInt(field, 8) === sum;
}

export async function sniffFile(path: string): Promise<Sniffed> {
  await using file = await open(path, 'r');
  const head = Buffer.alloc(BLOCK);
  const { bytesRead } = await file.read(head, 0, BLOCK, 0);
  return sniff(head.subarray(0, bytesRead));
}

/**
 * The file's content without its compression. A damaged or truncated stream throws DataLoss that names `what`;
 * trouble with the file itself stays what it is.
 */
export async function* decompressed(path: string, compression: Compression, what: string): AsyncGenerator<Buffer> {
  const file = createReadStream(path, { highWaterMark: CHUNK_BYTES }) as AsyncIterable<Buffer>;
  if (compression === 'none') yield* file;
  else yield* decompressedStream(file, compression, what);
}

/** As {@link decompressed}, for any source. What the source throws is thrown on as it is. */
export async function* decompressedStream(
  source: AsyncIterable<Buffer>,
  compression: Exclude<Compression, 'none'>,
  what: string,
): AsyncGenerator<Buffer> {
  const unzip = compression === 'gzip' ? createGunzip({ chunkSize: CHUNK_BYTES }) : createZstdDecompress();
  let sourceError: { error: unknown } | undefined;
  const feed = Readable.from(source).on('error', (error) => {
    sourceError = { error };
    unzip.destroy(error);
  });
  feed.pipe(unzip);
  try {
    yield* unzip as AsyncIterable<Buffer>;
  } catch (error) {
    if (sourceError !== undefined) throw sourceError.error;
    throw corrupt(what, compression, error);
  } finally {
    feed.destroy();
    unzip.destroy();
  }
}

export function corrupt(what: string, compression: Compression, cause: unknown): GantryError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  const truncated = code === 'Z_BUF_ERROR' || /unexpected end/i.test(cause instanceof Error ? cause.message : '');
  const detail = truncated ? 'it ends too early' : cause instanceof Error ? cause.message : String(cause);
  return new GantryError('DataLoss', `${what}: corrupt ${compression} data: ${detail}`, {
    cause,
    details: { reason: 'corrupt-compression', compression },
  });
}
