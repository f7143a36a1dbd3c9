import { HeaderTable, MOST_TABLE_BYTES, sizeOf, type Field } from './header-table.ts';
import { huffmanDecoded } from './huffman.ts';
import { CODE, ConnectionError } from './wire.ts';

/** What all fields of a request may count for. gRPC's are a few hundred bytes. */
export const MOST_FIELDS_BYTES = 64 * 1024;
/** Of the seven bits each of an integer: no length and no index has more. */
const MOST_INTEGER_SHIFT = 21;

/** Reads a client's header blocks (HPACK, RFC 7541). One for each connection: a block may refer to those before it. */
export class HpackReader {
  readonly #table = new HeaderTable();

  /** @throws ConnectionError for what is no header block, after which no other one can be understood */
  read(block: Buffer): Field[] {
    const input = new Input(block);
    const fields: Field[] = [];
    let size = 0;
    while (!input.done) {
      const field = this.#field(input, fields.length === 0);
      if (field === undefined) continue;
      fields.push(field);
      size += sizeOf(field);
      if (size > MOST_FIELDS_BYTES) throw new ConnectionError(CODE.enhanceYourCalm, 'too many header fields');
    }
    return fields;
  }

  /** Undefined: the table's new size, which may stand at the beginning only. */
  #field(input: Input, first: boolean): Field | undefined {
    const kind = input.peek();
    if (kind & 0x80) return this.#known(input.integer(7));
    if ((kind & 0xe0) === 0x20) {
      const most = input.integer(5);
      if (!first || most > MOST_TABLE_BYTES) throw nonsense();
      this.#table.resize(most);
      return undefined;
    }
    const kept = (kind & 0x40) !== 0;
    const index = input.integer(kept ? 6 : 4);
    const name = index === 0 ? input.text() : this.#known(index)[0];
    const field: Field = [name, input.text()];
    if (kept) this.#table.add(field);
    return field;
  }

  #known(index: number): Field {
    const field = this.#table.at(index);
    if (field === undefined) throw nonsense();
    return field;
  }
}

function nonsense(): ConnectionError {
  return new ConnectionError(CODE.compressionError, 'a header block that makes no sense');
}

class Input {
  readonly #block: Buffer;
  #at = 0;

  constructor(block: Buffer) {
    this.#block = block;
  }

  get done(): boolean {
    return this.#at >= this.#block.length;
  }

  peek(): number {
    const byte = this.#block[this.#at];
    if (byte === undefined) throw nonsense();
    return byte;
  }

  integer(prefixBits: number): number {
    const mask = (1 << prefixBits) - 1;
    let value = this.peek() & mask;
    this.#at++;
    if (value < mask) return value;
    for (let shift = 0; shift <= MOST_INTEGER_SHIFT; shift += 7) {
      const byte = this.peek();
      this.#at++;
      value += (byte & 0x7f) << shift;
      if ((byte & 0x80) === 0) return value;
    }
    throw nonsense();
  }

  text(): string {
    const coded = (this.peek() & 0x80) !== 0;
    const length = this.integer(7);
    const begin = this.#at;
    this.#at += length;
    if (this.#at > this.#block.length) throw nonsense();
    if (!coded) return this.#block.toString('latin1', begin, this.#at);
    const text = huffmanDecoded(this.#block.subarray(begin, this.#at));
    if (text === undefined) throw nonsense();
    return text;
  }
}

/** A header block that refers to no other: written once, it can be sent again and again. Texts have one byte for each character. */
export function headerBlock(fields: readonly Field[]): Buffer {
  return Buffer.concat(fields.flatMap(([name, value]) => [Buffer.of(0), literal(name), literal(value)]));
}

function literal(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1');
  return Buffer.concat([lengthOf(bytes.length), bytes]);
}

function lengthOf(length: number): Buffer {
  const mask = 0x7f;
  if (length < mask) return Buffer.of(length);
  const bytes = [mask];
  let rest = length - mask;
  for (; rest > 0x7f; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80);
  return Buffer.from([...bytes, rest]);
}
