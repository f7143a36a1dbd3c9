import { invalidArgument } from '../../../lib/errors.ts';
import { BLOCK_BYTES, type TarTime } from './tar-entry.ts';

const CHECKSUM_AT = 148;
const CHECKSUM_END = 156;
const SPACE = 0x20;
const ZERO = 0x30;

/**
 * A numeric header field: octal digits with spaces and NULs round them, or GNU's base-256 (top bit set, two's
 * complement), which is how sizes over 8 GiB and dates before 1970 are written without pax.
 */
export function parseNumber(block: Buffer, at: number, length: number, what: string): number {
  const first = block[at] ?? 0;
  if ((first & 0x80) !== 0) return parseBase256(block, at, length, what);
  let value = 0;
  let i = at;
  const end = at + length;
  while (i < end && block[i] === SPACE) i++;
  for (; i < end; i++) {
    const digit = (block[i] ?? 0) - ZERO;
    if (digit < 0 || digit > 7) break;
    value = value * 8 + digit;
  }
  for (; i < end; i++) {
    const byte = block[i];
    if (byte === 0) break;
    if (byte !== SPACE) throw invalidArgument(`tar: the ${what} of a member is no number`);
  }
  return value;
}

function parseBase256(block: Buffer, at: number, length: number, what: string): number {
  const first = block[at] ?? 0;
  const negative = first === 0xff;
  let value = BigInt(negative ? -1 : first & 0x7f);
  for (let i = at + 1; i < at + length; i++) value = (value << 8n) | BigInt(block[i] ?? 0);
  const number = Number(value);
  if (!Number.isSafeInteger(number)) throw invalidArgument(`tar: the ${what} of a member is out of range`);
  return number;
}

/** The header's checksum holds: the sum of its bytes, its own field read as spaces (old tars summed signed bytes). */
export function checksumHolds(block: Buffer): boolean {
  let unsigned = 0;
  let negative = 0;
  for (let i = 0; i < BLOCK_BYTES; i++) {
    const byte = i >= CHECKSUM_AT && i < CHECKSUM_END ? SPACE : (block[i] ?? 0);
    unsigned += byte;
    if (byte > 0x7f) negative += 256;
  }
  const field = block.toString('latin1', CHECKSUM_AT, CHECKSUM_END);
  const digits = /^ *([0-7]+)[ \0]*/.exec(field)?.[1];
  const stored = digits === undefined ? -1 : parseInt(digits, 8);
  return stored === unsigned || stored === unsigned - negative;
}

/** A non-negative decimal of a pax record. */
export function parsePaxInteger(text: string, what: string): number {
  const value = Number(text);
  if (!/^[0-9]+$/.test(text) || !Number.isSafeInteger(value)) {
    throw invalidArgument(`tar: the pax record "${what}" is no number`);
  }
  return value;
}

/** `[-]seconds[.fraction]`; digits beyond nanoseconds are cut. */
export function parsePaxTime(text: string, what: string): TarTime {
  const match = /^(-?)([0-9]{1,15})(?:\.([0-9]*))?$/.exec(text);
  if (match === null) throw invalidArgument(`tar: the pax record "${what}" is no time`);
  const whole = Number(match[2]);
  const nanoseconds = Number((match[3] ?? '').slice(0, 9).padEnd(9, '0'));
  if (match[1] === '') return { seconds: whole, nanoseconds };
  // -1.25 is 0.75 s after second -2: nanoseconds count upwards.
  return nanoseconds === 0
    ? { seconds: 0 - whole, nanoseconds }
    : { seconds: -whole - 1, nanoseconds: 1_000_000_000 - nanoseconds };
}
