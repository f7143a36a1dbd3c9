import { invalidArgument } from '../../../lib/errors.ts';
import { BLOCK_BYTES } from './tar-entry.ts';
import { parseNumber, parsePaxInteger } from './tar-numbers.ts';

/** A run of bytes that the archive holds; what lies between runs is a hole. */
export interface Extent {
  readonly offset: number;
  readonly length: number;
}

/** How much of a file's map is kept: real files have some hundreds of runs. */
const MAX_EXTENTS = 200_000;

/**
 * Runs that are in order, apart, inside the file, and as long together as what the archive holds: anything else would write over what
 * was written, or beyond the end that was declared. @throws InvalidArgument
 */
export function checkExtents(extents: readonly Extent[], fileBytes: number, storedBytes: number): void {
  let at = 0;
  let stored = 0;
  for (const { offset, length } of extents) {
    if (offset < at || length > fileBytes - offset) throw malformedMap();
    at = offset + length;
    stored += length;
  }
  if (stored !== storedBytes) throw malformedMap();
}

/** Where the content of a sparse file goes, piece by piece. */
export class ExtentCursor {
  readonly #extents: readonly Extent[];
  readonly #fileBytes: number;
  #index = 0;
  #given = 0;
  #position = 0;

  constructor(extents: readonly Extent[], fileBytes: number) {
    this.#extents = extents;
    this.#fileBytes = fileBytes;
  }

  /** The hole before the next bytes, and how many bytes follow without another: none at the end. */
  next(): { readonly hole: number; readonly bytes: number } {
    while (this.#given === this.#extents[this.#index]?.length) {
      this.#index++;
      this.#given = 0;
    }
    const extent = this.#extents[this.#index];
    const start = extent === undefined ? this.#fileBytes : extent.offset + this.#given;
    const hole = start - this.#position;
    this.#position = start;
    return { hole, bytes: extent === undefined ? 0 : extent.length - this.#given };
  }

  /** So many of them were there. */
  advance(bytes: number): void {
    this.#given += bytes;
    this.#position += bytes;
  }
}

const EXTENT_BYTES = 24;

/** GNU tar's own header of type `S`: four runs, the file's size, and whether a block with more runs follows. */
export function gnuSparseHeader(block: Buffer): { extents: Extent[]; fileBytes: number; more: boolean } {
  const fileBytes = parseNumber(block, 483, 12, 'size');
  if (fileBytes < 0) throw malformedMap();
  return { extents: extentsIn(block, 386, 4), fileBytes, more: block[482] !== 0 };
}

export function gnuSparseBlock(block: Buffer): { extents: Extent[]; more: boolean } {
  return { extents: extentsIn(block, 0, 21), more: block[504] !== 0 };
}

function extentsIn(block: Buffer, at: number, count: number): Extent[] {
  const extents: Extent[] = [];
  for (let i = 0; i < count; i++, at += EXTENT_BYTES) {
    if (block[at] === 0) break;
    const offset = parseNumber(block, at, 12, 'sparse map');
    const length = parseNumber(block, at + 12, 12, 'sparse map');
    if (offset < 0 || length < 0) throw malformedMap();
    extents.push({ offset, length });
  }
  return extents;
}

export function checkCount(extents: number): void {
  if (extents > MAX_EXTENTS) throw invalidArgument(`tar: a sparse file of more than ${String(MAX_EXTENTS)} pieces`);
}

/** What the records `GNU.sparse.*` of a pax header say: versions 0.0, 0.1 and 1.0. */
export class SparseRecords {
  readonly #numbers: number[] = [];
  readonly #values = new Map<string, string>();

  add(key: string, text: string): void {
    if (key === 'offset' || key === 'numbytes') {
      // Version 0.0: the same two keys again and again, in turn.
      if ((this.#numbers.length % 2 === 0) !== (key === 'offset')) throw malformedMap();
      this.#numbers.push(parsePaxInteger(text, key));
    } else if (key === 'map') {
      if (text !== '') this.#numbers.push(...text.split(',').map((part) => parsePaxInteger(part, key)));
    } else this.#values.set(key, text);
    checkCount(this.#numbers.length / 2);
  }

  /** Byte string: what the file is called, where the header has a name for readers that do not know of this. */
  get name(): string | undefined {
    return this.#values.get('name');
  }

  /** `extents` is undefined where the map stands before the content. */
  layout(): { readonly fileBytes: number; readonly extents: readonly Extent[] | undefined } {
    const version = `${this.#values.get('major') ?? '0'}.${this.#values.get('minor') ?? '0'}`;
    if (version === '1.0') return { fileBytes: this.#size('realsize'), extents: undefined };
    if (this.#values.has('major') && version !== '0.0' && version !== '0.1') {
      throw invalidArgument(`tar: sparse members of version ${JSON.stringify(version)} are not supported`);
    }
    const count = this.#values.get('numblocks');
    if (count !== undefined && parsePaxInteger(count, 'numblocks') * 2 !== this.#numbers.length) throw malformedMap();
    return { fileBytes: this.#size('size'), extents: pairs(this.#numbers) };
  }

  #size(key: string): number {
    return parsePaxInteger(this.#values.get(key) ?? '', `GNU.sparse.${key}`);
  }
}

/** Version 1.0: a number of runs, then offset and length of each, as decimal lines in whole blocks before the content. */
export class SparseMapReader {
  readonly #numbers: number[] = [];
  #rest = '';

  /** One block of the map. The runs when it was the last one. */
  block(block: Buffer): readonly Extent[] | undefined {
    const lines = (this.#rest + block.toString('latin1')).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) {
      this.#numbers.push(parsePaxInteger(line, 'sparse map'));
      const [count = 0] = this.#numbers;
      checkCount(count);
      if (this.#numbers.length === count * 2 + 1) return pairs(this.#numbers.slice(1));
    }
    // No number is that long.
    if (this.#rest.length > BLOCK_BYTES) throw malformedMap();
    return undefined;
  }
}

function pairs(numbers: readonly number[]): Extent[] {
  if (numbers.length % 2 !== 0) throw malformedMap();
  const extents: Extent[] = [];
  for (let i = 0; i < numbers.length; i += 2) extents.push({ offset: numbers[i] ?? 0, length: numbers[i + 1] ?? 0 });
  return extents;
}

function malformedMap(): Error {
  return invalidArgument('tar: a sparse file has a map that makes no sense');
}
