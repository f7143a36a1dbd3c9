import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf, GantryError, invalidArgument, notFound } from '../../../lib/errors.ts';
import { localError } from '../ingest.ts';
import type { TarIndex } from './tar-index.ts';

/** Files by name, in a folder or in an archive: what the readers of image formats work on. */
export interface FileTree {
  /** For messages. */
  readonly path: string;
  has(name: string): Promise<boolean>;
  /** Throws NotFound, and InvalidArgument for what is no file. */
  size(name: string): Promise<number>;
  /** Throws NotFound, and DataLoss beyond `maxBytes`. */
  read(name: string, maxBytes: number): Promise<Buffer>;
  stream(name: string): AsyncIterable<Buffer>;
}

const CHUNK_BYTES = 256 * 1024;

/** Only for names that the formats fix (`index.json`, `blobs/sha256/<hex>`): nothing an image says is a path here. */
export class DirectoryTree implements FileTree {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  async has(name: string): Promise<boolean> {
    return await stat(join(this.path, name)).then(
      (found) => found.isFile(),
      () => false,
    );
  }

  async size(name: string): Promise<number> {
    try {
      const found = await stat(join(this.path, name));
      // Opening a pipe would wait for a writer.
      if (!found.isFile()) throw invalidArgument(`${this.path}: ${name} is no regular file`);
      return found.size;
    } catch (error) {
      throw this.#failed(name, error);
    }
  }

  async read(name: string, maxBytes: number): Promise<Buffer> {
    const sizeBytes = await this.size(name);
    if (sizeBytes > maxBytes) throw tooLarge(this.path, name, maxBytes);
    try {
      await using file = await open(join(this.path, name), 'r');
      return await file.readFile();
    } catch (error) {
      throw this.#failed(name, error);
    }
  }

  async *stream(name: string): AsyncGenerator<Buffer> {
    await this.size(name);
    try {
      yield* createReadStream(join(this.path, name), { highWaterMark: CHUNK_BYTES }) as AsyncIterable<Buffer>;
    } catch (error) {
      throw this.#failed(name, error);
    }
  }

  #failed(name: string, error: unknown): GantryError {
    if (error instanceof GantryError) return error;
    return errnoOf(error) === 'ENOENT' ? missing(this.path, name) : localError(join(this.path, name), error);
  }
}

/** The files of a tar archive, read in place. Links among them are followed. */
export class TarTree implements FileTree {
  readonly path: string;
  /** The file that holds the archive: another than `path` where that is compressed. */
  readonly #file: string;
  readonly #index: TarIndex;

  constructor(path: string, file: string, index: TarIndex) {
    this.path = path;
    this.#file = file;
    this.#index = index;
  }

  has(name: string): Promise<boolean> {
    return Promise.resolve(this.#index.find(name) !== undefined);
  }

  size(name: string): Promise<number> {
    return Promise.resolve().then(() => this.#entry(name).sizeBytes);
  }

  async read(name: string, maxBytes: number): Promise<Buffer> {
    if (this.#entry(name).sizeBytes > maxBytes) throw tooLarge(this.path, name, maxBytes);
    const chunks: Buffer[] = [];
    for await (const chunk of this.stream(name)) chunks.push(chunk);
    return Buffer.concat(chunks);
  }

  async *stream(name: string): AsyncGenerator<Buffer> {
    const { offset, sizeBytes } = this.#entry(name);
    if (sizeBytes === 0) return;
    yield* createReadStream(this.#file, {
      start: offset,
      end: offset + sizeBytes - 1,
      highWaterMark: CHUNK_BYTES,
    }) as AsyncIterable<Buffer>;
  }

  #entry(name: string): { offset: number; sizeBytes: number } {
    const entry = this.#index.find(name);
    if (entry === undefined) throw missing(this.path, name);
    return entry;
  }
}

function missing(path: string, name: string): GantryError {
  return notFound(`${path}: ${name} is missing`, { details: { reason: 'missing-content', name } });
}

function tooLarge(path: string, name: string, maxBytes: number): GantryError {
  return new GantryError('DataLoss', `${path}: ${name} is larger than ${String(maxBytes)} bytes`);
}
