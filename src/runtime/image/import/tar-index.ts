import { open, type FileHandle } from 'node:fs/promises';
import { posix } from 'node:path';
import { GantryError } from '../../../lib/errors.ts';

interface IndexedEntry {
  readonly offset: number;
  readonly sizeBytes: number;
  /** For links: the name of what they point to, within the archive. */
  readonly target?: string;
}

const BLOCK = 512;
const MOST_ENTRIES = 100_000;
const LONGEST_NAME_BYTES = 64 * 1024;
const MOST_LINKS = 8;

/**
 * Where the files of a tar archive are, so that they can be read in place: image archives are larger than what is
 * worth extracting twice. Only regular files and links among them count. Throws DataLoss for a damaged archive.
 */
export class TarIndex {
  readonly #entries: ReadonlyMap<string, IndexedEntry>;

  private constructor(entries: ReadonlyMap<string, IndexedEntry>) {
    this.#entries = entries;
  }

  static async read(path: string, what: string): Promise<TarIndex> {
    await using file = await open(path, 'r');
    const { size } = await file.stat();
    const entries = new Map<string, IndexedEntry>();
    let overrides: { name?: string; target?: string; sizeBytes?: number } = {};
    for (let at = 0; at < size;) {
      if (at + BLOCK > size) throw damaged(what, 'it ends too early');
      const header = await readAt(file, at, BLOCK);
      if (header.every((byte) => byte === 0)) break;
      if (!hasChecksum(header)) throw damaged(what, `no tar header at byte ${String(at)}`);
      const type = String.fromCharCode(header[156] ?? 0);
      const ownSize = numberField(header, 124, 12);
      const isExtra = type === 'L' || type === 'K' || type === 'x' || type === 'g';
      const sizeBytes = isExtra ? ownSize : (overrides.sizeBytes ?? ownSize);
      const offset = at + BLOCK;
      if (!Number.isSafeInteger(sizeBytes) || sizeBytes < 0 || offset + sizeBytes > size) {
        throw damaged(what, 'it ends too early');
      }
      if (isExtra) {
        if (sizeBytes > LONGEST_NAME_BYTES) throw damaged(what, 'a header is too long');
        const content = await readAt(file, offset, sizeBytes);
        if (type === 'L') overrides.name = textField(content, 0, content.length);
        if (type === 'K') overrides.target = textField(content, 0, content.length);
        if (type === 'x') overrides = { ...overrides, ...paxFields(content) };
      } else {
        const name = normalize(overrides.name ?? headerName(header));
        const target = overrides.target ?? textField(header, 157, 100);
        if (type === '0' || type === '\0' || type === '7') entries.set(name, { offset, sizeBytes });
        // A symlink is relative to where it lies, a hard link names the archive's own path.
        if (type === '2')
          entries.set(name, { offset, sizeBytes: 0, target: normalize(posix.join(posix.dirname(name), target)) });
        if (type === '1') entries.set(name, { offset, sizeBytes: 0, target: normalize(target) });
        overrides = {};
        if (entries.size > MOST_ENTRIES) throw damaged(what, 'it has too many entries for an image archive');
      }
      const hasData = type !== '1' && type !== '2';
      at = offset + (hasData ? Math.ceil(sizeBytes / BLOCK) * BLOCK : 0);
    }
    return new TarIndex(entries);
  }

  /** A regular file by its name, links followed. */
  find(name: string): { readonly offset: number; readonly sizeBytes: number } | undefined {
    let entry = this.#entries.get(normalize(name));
    for (let hop = 0; entry?.target !== undefined && hop < MOST_LINKS; hop++) entry = this.#entries.get(entry.target);
    return entry?.target === undefined ? entry : undefined;
  }

  get size(): number {
    return this.#entries.size;
  }
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const buffer = Buffer.alloc(length);
  let filled = 0;
  while (filled < length) {
    const { bytesRead } = await file.read(buffer, filled, length - filled, position + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
}

function hasChecksum(header: Buffer): boolean {
  let sum = 0;
  for (let i = 0; i < BLOCK; i++) sum += i >= 148 && i < 156 ? 0x20 : (header[i] ?? 0);
  return numberField(header, 148, 8) === sum;
}

function textField(buffer: Buffer, start: number, length: number): string {
  const field = buffer.subarray(start, start + length);
  const end = field.indexOf(0);
  return field.toString('utf8', 0, end < 0 ? field.length : end);
}

/** Octal text, or GNU's binary form for what does not fit into it. */
function numberField(header: Buffer, start: number, length: number): number {
  const first = header[start] ?? 0;
  if ((first & 0x80) !== 0) {
    let value = first & 0x7f;
    for (let i = start + 1; i < start + length; i++) value = value * 256 + (header[i] ?? 0);
    return value;
  }
  const text = textField(header, start, length).trim();
  return text === '' ? 0 : /^[0-7]+$/.test(text) ? parseInt(text, 8) : Number.NaN;
}

function headerName(header: Buffer): string {
  const name = textField(header, 0, 100);
  const isPosix = header.toString('latin1', 257, 263) === 'ustar\0';
  const prefix = isPosix ? textField(header, 345, 155) : '';
  return prefix === '' ? name : `${prefix}/${name}`;
}

function paxFields(content: Buffer): { name?: string; target?: string; sizeBytes?: number } {
  const fields: { name?: string; target?: string; sizeBytes?: number } = {};
  for (let at = 0; at < content.length;) {
    const space = content.indexOf(0x20, at);
    const length = space < 0 ? Number.NaN : Number(content.toString('latin1', at, space));
    if (!Number.isSafeInteger(length) || length <= space - at) break;
    const record = content.toString('utf8', space + 1, at + length - 1);
    const equals = record.indexOf('=');
    const [key, value] = [record.slice(0, equals), record.slice(equals + 1)];
    if (key === 'path') fields.name = value;
    if (key === 'linkpath') fields.target = value;
    if (key === 'size') fields.sizeBytes = Number(value);
    at += length;
  }
  return fields;
}

function normalize(name: string): string {
  return posix.normalize(`/${name}`).replace(/^\/+/, '').replace(/\/+$/, '');
}

function damaged(what: string, why: string): GantryError {
  return new GantryError('DataLoss', `${what}: damaged tar archive: ${why}`, {
    details: { reason: 'corrupt-archive' },
  });
}
