import { createHash, type Hash } from 'node:crypto';
import { open, type FileHandle } from 'node:fs/promises';
import type { Op } from '../../../lib/abort.ts';
import type { Clock } from '../../../lib/clock.ts';
import { GantryError, isKind, messageOf } from '../../../lib/errors.ts';
import { wrongDigest } from '../content-source.ts';
import { algorithmOf, hexOf } from '../digest.ts';
import { localError } from '../ingest.ts';
import type { Descriptor } from '../manifest.ts';
import { retryDelayMs, type RetryPolicy } from './retry.ts';
import { isRetryable } from './transport-errors.ts';
import type { HttpAnswer } from './transport.ts';

export interface BlobDownload {
  readonly descriptor: Descriptor;
  /** Where to put it. What is there already is overwritten. */
  readonly path: string;
  readonly hostName: string;
  readonly clock: Clock;
  readonly retry: RetryPolicy;
  readonly onBytes: (bytes: number) => void;
  /** Asks for the blob from a byte on. The answer may be whole all the same. */
  readonly open: (fromByte: number) => Promise<HttpAnswer>;
}

/** A connection that got this far before it broke is worth another try, however many there were. */
const PROGRESS_BYTES = 1024 * 1024;

/**
 * Downloads a blob into a file and verifies it as a whole, however many connections it took. Throws DataLoss when
 * it is longer, shorter or other than its descriptor says; what was written is left for the caller to remove.
 */
export async function downloadBlob(op: Op, download: BlobDownload): Promise<void> {
  const { descriptor, path, hostName, clock, retry } = download;
  const writing = new BlobWriter(download);
  try {
    await writing.openFile(path);
    for (let failures = 0; ;) {
      const before = writing.bytes;
      // What fails here has been tried often enough by the client already.
      const answer = await openAt(download, writing);
      try {
        await writing.receive(answer);
        break;
      } catch (error) {
        if (op.signal.aborted || !isRetryable(error)) throw error;
        failures = writing.bytes - before >= PROGRESS_BYTES ? 1 : failures + 1;
        if (failures >= retry.attempts) throw truncated(download, writing.bytes, error);
        op.log.info(
          { layer: descriptor.digest, host: hostName, bytes: writing.bytes, error: messageOf(error) },
          'download of a layer goes on from where it broke',
        );
        await clock.sleep(retryDelayMs(retry, failures, error), op.signal);
      }
    }
    writing.verify();
  } finally {
    await writing.close();
  }
}

async function openAt(download: BlobDownload, writing: BlobWriter): Promise<HttpAnswer> {
  try {
    return await download.open(writing.bytes);
  } catch (error) {
    if (!isKind(error, 'OutOfRange') || writing.bytes === 0) throw error;
    writing.startOver();
    return await download.open(0);
  }
}

function truncated({ descriptor, hostName }: BlobDownload, bytes: number, cause: unknown): GantryError {
  return new GantryError(
    'DataLoss',
    `registry ${hostName}: layer ${descriptor.digest}: truncated: ${String(bytes)} of ${String(descriptor.sizeBytes)} bytes came, again and again`,
    { cause, details: { reason: 'truncated', bytes, sizeBytes: descriptor.sizeBytes } },
  );
}

class BlobWriter {
  readonly #download: BlobDownload;
  #file: FileHandle | undefined;
  #hash: Hash;
  #bytes = 0;

  constructor(download: BlobDownload) {
    this.#download = download;
    this.#hash = this.#newHash();
  }

  get bytes(): number {
    return this.#bytes;
  }

  async openFile(path: string): Promise<void> {
    this.#file = await open(path, 'w', 0o600).catch((error: unknown) => {
      throw localError(path, error);
    });
  }

  async close(): Promise<void> {
    await this.#file?.close().catch(() => undefined);
  }

  startOver(): void {
    this.#bytes = 0;
    this.#hash = this.#newHash();
  }

  async receive(answer: HttpAnswer): Promise<void> {
    const { descriptor, onBytes } = this.#download;
    // A server that knows no ranges sends all of it again.
    if (answer.status !== 206) this.startOver();
    else if (startOfRange(answer.headers['content-range']) !== this.#bytes) {
      answer.discard();
      this.startOver();
      throw this.#failed('Unavailable', 'sent another range than was asked for', { retryable: true });
    }
    const length = Number(answer.headers['content-length'] ?? Number.NaN);
    if (Number.isFinite(length) && this.#bytes + length > descriptor.sizeBytes) {
      answer.discard();
      throw this.#tooLong();
    }
    for await (const chunk of answer.body) {
      if (this.#bytes + chunk.length > descriptor.sizeBytes) throw this.#tooLong();
      await this.#write(chunk);
      onBytes(this.#bytes);
    }
    if (this.#bytes < descriptor.sizeBytes) {
      throw this.#failed('DataLoss', 'ended too early', { reason: 'truncated', retryable: true });
    }
  }

  async #write(chunk: Buffer): Promise<void> {
    const { path } = this.#download;
    try {
      for (let at = 0; at < chunk.length;) {
        const result = await this.#file?.write(chunk, at, chunk.length - at, this.#bytes + at);
        at += result?.bytesWritten ?? 0;
      }
    } catch (error) {
      throw localError(path, error);
    }
    this.#hash.update(chunk);
    this.#bytes += chunk.length;
  }

  verify(): void {
    const { descriptor, hostName } = this.#download;
    const hex = this.#hash.digest('hex');
    if (hex === hexOf(descriptor.digest)) return;
    const error = wrongDigest('layer', descriptor.digest, `${algorithmOf(descriptor.digest)}:${hex}`);
    throw new GantryError(error.kind, `registry ${hostName}: ${error.message}`, { details: error.details });
  }

  #newHash(): Hash {
    return createHash(algorithmOf(this.#download.descriptor.digest));
  }

  #tooLong(): GantryError {
    return this.#failed(
      'DataLoss',
      `is longer than its manifest says (${String(this.#download.descriptor.sizeBytes)} bytes)`,
      {
        reason: 'wrong-size',
      },
    );
  }

  #failed(kind: 'Unavailable' | 'DataLoss', why: string, details: Record<string, unknown>): GantryError {
    const { descriptor, hostName } = this.#download;
    return new GantryError(kind, `registry ${hostName}: layer ${descriptor.digest}: ${why}`, { details });
  }
}

function startOfRange(header: string | undefined): number | undefined {
  const match = /^bytes ([0-9]+)-/.exec(header ?? '');
  return match === null ? undefined : Number(match[1]);
}
