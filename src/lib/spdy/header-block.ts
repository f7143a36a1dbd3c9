import { invalidArgument } from '../errors.ts';

/** Names in lower case, as SPDY has them. */
export type Headers = ReadonlyMap<string, string>;

/** remotecommand has one header and port-forward three. */
const MAX_HEADERS = 64;

/**
 * The headers in a block that has been decompressed: a count, then name and value of each, both with their length before them.
 * @throws InvalidArgument for a block that is not whole, repeats a name or has too many
 */
export function decodeHeaderBlock(block: Buffer): Headers {
  let at = 0;
  const number = (): number => {
    if (at + 4 > block.length) throw invalidArgument('SPDY: a header block ends too early');
    at += 4;
    return block.readUInt32BE(at - 4);
  };
  const text = (): string => {
    const bytes = number();
    if (at + bytes > block.length) throw invalidArgument('SPDY: a header is said to be longer than its block');
    at += bytes;
    return block.toString('utf8', at - bytes, at);
  };
  const count = number();
  if (count > MAX_HEADERS) throw invalidArgument(`SPDY: ${count} headers, at most ${MAX_HEADERS} are read`);
  const headers = new Map<string, string>();
  for (let index = 0; index < count; index += 1) {
    const name = text().toLowerCase();
    if (name === '') throw invalidArgument('SPDY: a header without a name');
    if (headers.has(name)) throw invalidArgument(`SPDY: the header ${JSON.stringify(name)} is there twice`);
    // Several values of one header are separated by zeros. Nobody sends several of those that we read.
    headers.set(name, text().split('\0', 1)[0] ?? '');
  }
  return headers;
}

/** zlib's head: window of 32 KiB, with a dictionary, and the dictionary's Adler-32. */
const ZLIB_HEAD = Buffer.from('78bbe3c6a7c2', 'hex');
/** What a sync flush ends with: readers hand on what they have when they see it. */
const FLUSH = Buffer.from('000000ffff', 'hex');
/** What a block of zlib can hold that is not compressed. */
const MAX_STORED_BYTES = 0xffff;

/**
 * The header blocks that we send. They belong to one zlib stream that lasts as long as the connection: its head is there once, and each
 * block is flushed and leaves the stream open. What is in them is not compressed: it is a few dozen bytes.
 */
export class HeaderBlocks {
  #started = false;

  next(headers: Readonly<Record<string, string>> = {}): Buffer {
    const head = this.#started ? [] : [ZLIB_HEAD];
    this.#started = true;
    return Buffer.concat([...head, stored(encodeHeaderBlock(headers)), FLUSH]);
  }
}

function encodeHeaderBlock(headers: Readonly<Record<string, string>>): Buffer {
  const entries = Object.entries(headers);
  const parts = [numberBytes(entries.length)];
  for (const text of entries.flat()) parts.push(numberBytes(Buffer.byteLength(text)), Buffer.from(text));
  return Buffer.concat(parts);
}

function numberBytes(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Type (stored), length, the length's complement, bytes. */
function stored(bytes: Buffer): Buffer {
  if (bytes.length > MAX_STORED_BYTES) throw invalidArgument(`SPDY: ${bytes.length} bytes of headers are too many`);
  const head = Buffer.alloc(5);
  head.writeUInt16LE(bytes.length, 1);
  head.writeUInt16LE(bytes.length ^ MAX_STORED_BYTES, 3);
  return Buffer.concat([head, bytes]);
}
