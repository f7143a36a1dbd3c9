import { GantryError, invalidArgument } from '../../../lib/errors.ts';
import { parsePax, type PaxOverrides } from './pax.ts';
import {
  checkCount,
  checkExtents,
  ExtentCursor,
  gnuSparseBlock,
  gnuSparseHeader,
  SparseMapReader,
  type Extent,
} from './sparse.ts';
import { BLOCK_BYTES, type TarEntry, type TarEntryType } from './tar-entry.ts';
import { checksumHolds, parseNumber } from './tar-numbers.ts';

/** Takes the members as they come. Whatever a method throws stops the parser and reaches the caller of `write`. */
export interface TarSink {
  entry(entry: TarEntry): void;
  /** A piece of the content of the file that `entry` named last; only valid during the call. */
  data(piece: Buffer): void;
  /** So many bytes of the file follow that the archive does not hold: they are zeros. For sparse files only. */
  hole(bytes: number): void;
  /** The content is complete. Called for files only, empty ones too. */
  fileEnd(): void;
}

/** Long names and pax headers are read into memory, so they are bounded. */
const MAX_META_BYTES = 4 << 20;
const TYPE_AT = 156;
const USTAR = Buffer.from('ustar');

const TYPES: Readonly<Record<string, TarEntryType>> = {
  '\0': 'file',
  '0': 'file',
  S: 'file', // GNU's own sparse file
  '7': 'file', // "contiguous": a file, says POSIX
  '1': 'link',
  '2': 'symlink',
  '3': 'character-device',
  '4': 'block-device',
  '5': 'directory',
  '6': 'fifo',
};

type Meta = 'pax' | 'global' | 'long-name' | 'long-link';
const META: Readonly<Record<string, Meta>> = { x: 'pax', X: 'pax', g: 'global', L: 'long-name', K: 'long-link' };

type State =
  | { readonly kind: 'header' }
  | { readonly kind: 'file'; left: number; padding: number; readonly cursor?: ExtentCursor }
  | { readonly kind: 'gnu-sparse'; readonly header: Buffer; readonly extents: Extent[]; readonly fileBytes: number }
  | { readonly kind: 'sparse-map'; readonly entry: TarEntry; readonly map: SparseMapReader; left: number }
  | { readonly kind: 'meta'; readonly meta: Meta; readonly data: Buffer; filled: number; padding: number }
  | { readonly kind: 'padding'; left: number }
  | { readonly kind: 'ended' };

/**
 * A streaming tar reader: ustar, old V7, GNU long names and numbers, pax, sparse files in GNU's four ways. What it does not
 * know (multi-volume archives, vendors' types) it refuses rather than guess. It works on bytes, synchronously and
 * without copying content, because a layer is unpacked at the speed of this loop.
 */
export class TarParser {
  readonly #sink: TarSink;
  readonly #partial = Buffer.alloc(BLOCK_BYTES);
  #partialBytes = 0;
  #state: State = { kind: 'header' };
  #pax: PaxOverrides | undefined;
  #longName: string | undefined;
  #longLink: string | undefined;

  constructor(sink: TarSink) {
    this.#sink = sink;
  }

  write(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      const state = this.#state;
      const available = chunk.length - at;
      switch (state.kind) {
        case 'header': {
          const taken = this.#wholeBlock(chunk, at);
          at += taken.bytes;
          if (taken.block !== undefined) this.#header(taken.block);
          break;
        }
        case 'gnu-sparse':
        case 'sparse-map': {
          const taken = this.#wholeBlock(chunk, at);
          at += taken.bytes;
          if (taken.block === undefined) break;
          if (state.kind === 'gnu-sparse') this.#moreExtents(state, taken.block);
          else this.#moreMap(state, taken.block);
          break;
        }
        case 'file': {
          const take = Math.min(state.left, available, this.#beforeData(state.cursor));
          this.#sink.data(chunk.subarray(at, at + take));
          state.cursor?.advance(take);
          at += take;
          state.left -= take;
          if (state.left > 0) break;
          this.#beforeData(state.cursor);
          this.#sink.fileEnd();
          this.#skip(state.padding);
          break;
        }
        case 'meta': {
          const take = Math.min(state.data.length - state.filled, available);
          chunk.copy(state.data, state.filled, at, at + take);
          at += take;
          state.filled += take;
          if (state.filled < state.data.length) break;
          this.#meta(state.meta, state.data);
          this.#skip(state.padding);
          break;
        }
        case 'padding': {
          const take = Math.min(state.left, available);
          at += take;
          state.left -= take;
          if (state.left === 0) this.#state = { kind: 'header' };
          break;
        }
        case 'ended':
          return;
      }
    }
  }

  /** Call when the stream is over. @throws DataLoss when it stopped inside a member. */
  finish(): void {
    const { kind } = this.#state;
    if (kind === 'ended') return;
    // An archive without its two zero blocks is read by every tar; one that stops inside a member is cut off.
    const pending = this.#pax !== undefined || this.#longName !== undefined || this.#longLink !== undefined;
    if (kind !== 'header' || this.#partialBytes > 0 || pending) {
      throw new GantryError('DataLoss', 'tar: the archive ends in the middle of a member');
    }
  }

  /** The next block of the stream, out of one chunk or several. */
  #wholeBlock(chunk: Buffer, at: number): { readonly bytes: number; readonly block?: Buffer } {
    const available = chunk.length - at;
    if (this.#partialBytes === 0 && available >= BLOCK_BYTES) {
      return { bytes: BLOCK_BYTES, block: chunk.subarray(at, at + BLOCK_BYTES) };
    }
    const bytes = Math.min(BLOCK_BYTES - this.#partialBytes, available);
    chunk.copy(this.#partial, this.#partialBytes, at, at + bytes);
    this.#partialBytes += bytes;
    if (this.#partialBytes < BLOCK_BYTES) return { bytes };
    this.#partialBytes = 0;
    return { bytes, block: this.#partial };
  }

  /** Tells of the hole here, if there is one; how many bytes come before the next. */
  #beforeData(cursor: ExtentCursor | undefined): number {
    if (cursor === undefined) return Number.POSITIVE_INFINITY;
    const { hole, bytes } = cursor.next();
    if (hole > 0) this.#sink.hole(hole);
    return bytes;
  }

  #moreExtents(state: State & { kind: 'gnu-sparse' }, block: Buffer): void {
    const { extents, more } = gnuSparseBlock(block);
    state.extents.push(...extents);
    checkCount(state.extents.length);
    if (more) return;
    this.#entry(state.header, 'file', this.#sizeOf(state.header), state);
  }

  #moreMap(state: State & { kind: 'sparse-map' }, block: Buffer): void {
    state.left -= BLOCK_BYTES;
    const extents = state.map.block(block);
    if (extents !== undefined) this.#file(state.entry, state.left, extents);
    else if (state.left < BLOCK_BYTES) throw invalidArgument('tar: a sparse file has a map that does not end');
  }

  #skip(padding: number): void {
    this.#state = padding === 0 ? { kind: 'header' } : { kind: 'padding', left: padding };
  }

  #header(block: Buffer): void {
    if (block[0] === 0 && isZero(block)) {
      // One zero block ends it: what GNU tar and Go's reader take for the end as well, and nothing legal follows.
      this.#state = { kind: 'ended' };
      return;
    }
    if (!checksumHolds(block)) throw invalidArgument('tar: a header has a wrong checksum: this is no tar archive');
    const flag = String.fromCharCode(block[TYPE_AT] ?? 0);
    const size = this.#sizeOf(block);
    const meta = META[flag];
    if (meta !== undefined) {
      this.#beginMeta(meta, size);
      return;
    }
    const type = TYPES[flag];
    if (type === undefined) throw invalidArgument(`tar: members of type ${JSON.stringify(flag)} are not supported`);
    if (flag !== 'S') {
      this.#entry(block, type, size);
      return;
    }
    const { extents, fileBytes, more } = gnuSparseHeader(block);
    if (more) this.#state = { kind: 'gnu-sparse', header: Buffer.from(block), extents, fileBytes };
    else this.#entry(block, type, size, { extents, fileBytes });
  }

  #sizeOf(block: Buffer): number {
    const size = parseNumber(block, 124, 12, 'size');
    if (size < 0) throw invalidArgument('tar: a member has a negative size');
    return size;
  }

  #beginMeta(meta: Meta, size: number): void {
    if (size > MAX_META_BYTES) throw invalidArgument(`tar: a header of ${String(size)} bytes is too long`);
    const state: State = { kind: 'meta', meta, data: Buffer.alloc(size), filled: 0, padding: paddingOf(size) };
    if (size > 0) this.#state = state;
    else this.#meta(meta, state.data);
  }

  #meta(meta: Meta, data: Buffer): void {
    switch (meta) {
      case 'pax':
        this.#pax = parsePax(data);
        break;
      case 'global':
        // Ignored, as by every other reader of layers: the same digest must mean the same content everywhere.
        break;
      case 'long-name':
        this.#longName = cString(data, 0, data.length);
        break;
      case 'long-link':
        this.#longLink = cString(data, 0, data.length);
        break;
    }
  }

  #entry(
    block: Buffer,
    flagType: TarEntryType,
    headerSize: number,
    gnuSparse?: { readonly extents: readonly Extent[]; readonly fileBytes: number },
  ): void {
    const pax = this.#pax;
    const sparse = flagType === 'file' ? (gnuSparse ?? pax?.sparse?.layout()) : undefined;
    const path = pax?.sparse?.name ?? pax?.path ?? this.#longName ?? headerPath(block);
    const linkPath = pax?.linkPath ?? this.#longLink ?? cString(block, 157, 100);
    this.#pax = undefined;
    this.#longName = undefined;
    this.#longLink = undefined;
    // V7 archives know no directories but "a file whose name ends in a slash".
    const type = flagType === 'file' && sparse === undefined && path.endsWith('/') ? 'directory' : flagType;
    const size = flagType === 'file' ? (pax?.size ?? headerSize) : 0;
    const entry: TarEntry = {
      type,
      path,
      linkPath: type === 'link' || type === 'symlink' ? linkPath : '',
      mode: parseNumber(block, 100, 8, 'mode') & 0o7777,
      uid: idOf(pax?.uid ?? parseNumber(block, 108, 8, 'uid')),
      gid: idOf(pax?.gid ?? parseNumber(block, 116, 8, 'gid')),
      size: type === 'file' ? (sparse?.fileBytes ?? size) : 0,
      mtime: pax?.mtime ?? { seconds: parseNumber(block, 136, 12, 'mtime'), nanoseconds: 0 },
      deviceMajor: type.endsWith('device') ? parseNumber(block, 329, 8, 'device number') : 0,
      deviceMinor: type.endsWith('device') ? parseNumber(block, 337, 8, 'device number') : 0,
      xattrs: pax?.xattrs ?? [],
    };
    if (type !== 'file') {
      this.#sink.entry(entry);
      this.#skip(size + paddingOf(size));
      return;
    }
    if (sparse !== undefined && sparse.extents === undefined) {
      if (size < BLOCK_BYTES) throw invalidArgument('tar: a sparse file has no map');
      this.#state = { kind: 'sparse-map', entry, map: new SparseMapReader(), left: size };
      return;
    }
    this.#file(entry, size, sparse?.extents);
  }

  /** @param extents of a sparse file */
  #file(entry: TarEntry, storedBytes: number, extents?: readonly Extent[]): void {
    if (extents !== undefined) checkExtents(extents, entry.size, storedBytes);
    this.#sink.entry(extents === undefined ? entry : { ...entry, storedBytes });
    const cursor = extents === undefined ? {} : { cursor: new ExtentCursor(extents, entry.size) };
    if (storedBytes > 0) {
      this.#state = { kind: 'file', left: storedBytes, padding: paddingOf(storedBytes), ...cursor };
      return;
    }
    this.#beforeData(cursor.cursor);
    this.#sink.fileEnd();
    this.#state = { kind: 'header' };
  }
}

function headerPath(block: Buffer): string {
  const name = cString(block, 0, 100);
  // Only POSIX's "ustar\0" has a prefix there; GNU's "ustar  " keeps times in that place.
  if (!block.subarray(257, 262).equals(USTAR) || block[262] !== 0) return name;
  const prefix = cString(block, 345, 155);
  return prefix === '' ? name : `${prefix}/${name}`;
}

function cString(buffer: Buffer, at: number, length: number): string {
  const nul = buffer.indexOf(0, at);
  return buffer.toString('latin1', at, nul < 0 || nul > at + length ? at + length : nul);
}

function idOf(id: number): number {
  // 2^32-1 means "leave as it is" to chown: no id.
  if (id < 0 || id >= 0xffff_ffff) throw invalidArgument(`tar: owner ${String(id)} is out of range`);
  return id;
}

function paddingOf(size: number): number {
  return (BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES;
}

function isZero(block: Buffer): boolean {
  for (const byte of block) if (byte !== 0) return false;
  return true;
}
