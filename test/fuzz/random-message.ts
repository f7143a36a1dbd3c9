import type { Random } from '../soak/random.ts';
import type { ProtoField, ProtoSchema } from './proto-schema.ts';

/** Texts that a field of that name may have; those of '' are for all others. */
export type Texts = (fieldName: string) => readonly [string, ...string[]];

/** Wire types of protobuf. */
const [VARINT, FIXED64, BYTES, FIXED32] = [0, 1, 2, 5];
const DEEPEST = 6;
const MEGABYTE = 1 << 20;
const INTEGERS: readonly [bigint, ...bigint[]] = [
  ...([0n, 1n, 2n, 10n, 1000n, -1n, -1000n, 65_535n, 65_536n, 1_000_000_000n] as const),
  ...([2n ** 31n - 1n, -(2n ** 31n), 2n ** 32n, 2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n)] as const),
];

/**
 * Bytes of a message of the schema with arbitrary content: extreme numbers, unknown enum values and fields, empty and huge texts, deep and
 * repeated parts. The same for the same random numbers.
 */
export function randomMessage(random: Random, schema: ProtoSchema, texts: Texts, type: string): Buffer {
  return new Generator(random, schema, texts).message(type, random.pick([0.05, 0.3, 0.9]), 0);
}

class Generator {
  readonly #random: Random;
  readonly #schema: ProtoSchema;
  readonly #texts: Texts;

  constructor(random: Random, schema: ProtoSchema, texts: Texts) {
    this.#random = random;
    this.#schema = schema;
    this.#texts = texts;
  }

  /** `density` is how likely each field is there. */
  message(type: string, density: number, depth: number): Buffer {
    const parts: Buffer[] = [];
    for (const field of this.#schema.messages.get(type) ?? []) {
      if (!this.#random.chance(density) || (depth >= DEEPEST && this.#schema.messages.has(field.type))) continue;
      const many = field.repeated || field.mapKey !== undefined ? this.#random.pick([0, 1, 1, 2, 5]) : 1;
      for (let i = 0; i < many; i++) parts.push(this.#field(field, density, depth));
    }
    // A field that nobody knows, or one that is known with another wire type.
    if (this.#random.chance(0.05)) parts.push(this.#stranger());
    return Buffer.concat(parts);
  }

  #field(field: ProtoField, density: number, depth: number): Buffer {
    if (field.mapKey === undefined) return this.#value(field.number, field.type, field.name, density, depth);
    const key = this.#value(1, field.mapKey, `${field.name}.key`, density, depth);
    const value = this.#value(2, field.type, `${field.name}.value`, density, depth);
    return lengthDelimited(field.number, Buffer.concat([key, value]));
  }

  #value(number: number, type: string, name: string, density: number, depth: number): Buffer {
    const random = this.#random;
    if (this.#schema.messages.has(type)) return lengthDelimited(number, this.message(type, density, depth + 1));
    const numbers = this.#schema.enums.get(type);
    if (numbers !== undefined) {
      return varintField(number, BigInt(random.pick([...numbers, random.pick([99, -1, 2 ** 31 - 1])] as [number])));
    }
    switch (type) {
      case 'string':
        return lengthDelimited(number, this.#text(name));
      case 'bytes':
        return lengthDelimited(number, Buffer.from(random.pick(['', '\0', 'bytes'])));
      case 'bool':
        return varintField(number, random.pick([0n, 1n]));
      case 'double':
      case 'fixed64':
        return Buffer.concat([varint(BigInt((number << 3) | FIXED64)), bytesOf(8, random)]);
      case 'float':
        return Buffer.concat([varint(BigInt((number << 3) | FIXED32)), bytesOf(4, random)]);
      default:
        return varintField(number, random.chance(0.8) ? random.pick(INTEGERS) : BigInt(random.between(0, 1e6)));
    }
  }

  #text(name: string): Buffer {
    const random = this.#random;
    if (random.chance(0.5)) return Buffer.from(random.pick(this.#texts(name) as [string]));
    if (random.chance(0.02)) return Buffer.alloc(MEGABYTE, 'x');
    // Not UTF-8, which a string has to be.
    if (random.chance(0.05)) return Buffer.from([0xff, 0xfe, 0xc0, 0x80]);
    return Buffer.from(random.pick(this.#texts('') as [string]));
  }

  #stranger(): Buffer {
    const random = this.#random;
    const number = random.pick([random.between(1, 20), 4096, 2 ** 29 - 1]);
    return random.chance(0.5)
      ? varintField(number, random.pick(INTEGERS))
      : lengthDelimited(number, bytesOf(random.between(0, 40), random));
  }
}

export function bytesOf(length: number, random: Random): Buffer {
  return Buffer.from(Array.from({ length }, () => random.between(0, 255)));
}

/** A field of a message, by itself. */
export function textField(number: number, text: string): Buffer {
  return lengthDelimited(number, Buffer.from(text));
}

function lengthDelimited(number: number, content: Buffer): Buffer {
  return Buffer.concat([varint(BigInt(number) * 8n + BigInt(BYTES)), varint(BigInt(content.length)), content]);
}

function varintField(number: number, value: bigint): Buffer {
  return Buffer.concat([varint(BigInt(number) * 8n + BigInt(VARINT)), varint(value)]);
}

/** Negative numbers take all ten bytes, as the format has it. */
function varint(value: bigint): Buffer {
  let rest = BigInt.asUintN(64, value);
  const bytes: number[] = [];
  do {
    const more = rest > 0x7fn;
    bytes.push(Number(rest & 0x7fn) | (more ? 0x80 : 0));
    rest >>= 7n;
  } while (rest > 0n);
  return Buffer.from(bytes);
}
