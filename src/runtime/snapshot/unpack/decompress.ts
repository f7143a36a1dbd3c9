import { open } from 'node:fs/promises';
import type { Transform } from 'node:stream';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { GantryError, messageOf, notImplemented } from '../../../lib/errors.ts';

/** Found by the first bytes, never by what a manifest or a file name says: both are often wrong. */
export type LayerCompression = 'none' | 'gzip' | 'zstd';

const DECOMPRESSED_CHUNK_BYTES = 256 << 10;
/** How far the decompressor (it works in libuv's pool) may be ahead of the unpacking thread. */
const DECOMPRESSED_AHEAD_BYTES = 4 << 20;

/** @throws NotImplemented for a compression that layers are not known to have. */
export function compressionOf(firstBytes: Buffer): LayerCompression {
  const starts = (...bytes: number[]): boolean => bytes.every((byte, i) => firstBytes[i] === byte);
  if (starts(0x1f, 0x8b)) return 'gzip';
  if (starts(0x28, 0xb5, 0x2f, 0xfd)) return 'zstd';
  // A skippable frame (0x184d2a50 to 5f) may stand before the first real one.
  if (
    ((firstBytes[0] ?? 0) & 0xf0) === 0x50 &&
    firstBytes[1] === 0x2a &&
    firstBytes[2] === 0x4d &&
    firstBytes[3] === 0x18
  ) {
    return 'zstd';
  }
  if (starts(0xfd, 0x37, 0x7a, 0x58, 0x5a)) throw notImplemented('layers compressed with xz are not supported');
  if (starts(0x42, 0x5a, 0x68)) throw notImplemented('layers compressed with bzip2 are not supported');
  return 'none';
}

export async function compressionOfFile(path: string): Promise<LayerCompression> {
  const file = await open(path, 'r');
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(8), 0, 8, 0);
    return compressionOf(buffer.subarray(0, bytesRead));
  } finally {
    await file.close();
  }
}

export function decompressor(compression: LayerCompression): Transform | undefined {
  const options = { chunkSize: DECOMPRESSED_CHUNK_BYTES, readableHighWaterMark: DECOMPRESSED_AHEAD_BYTES };
  switch (compression) {
    case 'none':
      return undefined;
    case 'gzip':
      return createGunzip(options);
    case 'zstd':
      return createZstdDecompress(options);
  }
}

/** zlib's complaints (`Z_DATA_ERROR`, `ZSTD_error_…`) as DataLoss; undefined for any other error. */
export function damagedStream(error: unknown, compression: LayerCompression): GantryError | undefined {
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
  if (!/^Z_|^ZSTD_|^ERR_ZLIB/.test(code)) return undefined;
  return new GantryError('DataLoss', `the layer's ${compression} stream is damaged: ${messageOf(error)}`, {
    cause: error,
  });
}
