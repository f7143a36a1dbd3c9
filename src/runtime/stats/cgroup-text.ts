import type { Pressure, PressureLine } from './cgroup-usage.ts';

/** The kernel's text formats in cgroup files. Pure. What is not there or no number is undefined. */

/** `name value` on each line. */
export function parseFlatKeyed(text: string | undefined): ReadonlyMap<string, bigint> {
  const values = new Map<string, bigint>();
  for (const line of (text ?? '').split('\n')) {
    const space = line.indexOf(' ');
    const value = space < 0 ? undefined : parseCount(line.slice(space + 1));
    if (value !== undefined) values.set(line.slice(0, space), value);
  }
  return values;
}

/** A file with one number in it; `max` is no number. */
export function parseCount(text: string | undefined): bigint | undefined {
  const digits = text?.trim() ?? '';
  return /^\d+$/.test(digits) ? BigInt(digits) : undefined;
}

/** Above this v1 means "no limit": its own largest value, rounded to pages. */
const LARGEST_LIMIT = 1n << 62n;

/** A limit in bytes; undefined when there is none. */
export function parseLimit(text: string | undefined): bigint | undefined {
  const value = parseCount(text);
  return value === undefined || value > LARGEST_LIMIT ? undefined : value;
}

/** `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, and the same of `full`. Undefined when neither is there. */
export function parsePressure(text: string | undefined): Pressure | undefined {
  const some = pressureLine(text, 'some');
  const full = pressureLine(text, 'full');
  if (some === undefined && full === undefined) return undefined;
  return { ...(some === undefined ? {} : { some }), ...(full === undefined ? {} : { full }) };
}

function pressureLine(text: string | undefined, word: string): PressureLine | undefined {
  const line = text?.split('\n').find((each) => each.startsWith(`${word} `));
  if (line === undefined) return undefined;
  const values = new Map(line.split(' ').map((part) => [part.split('=')[0] ?? '', part.split('=')[1] ?? '']));
  const percent = (name: string): number => Number(values.get(name) ?? '0');
  return {
    avg10: percent('avg10'),
    avg60: percent('avg60'),
    avg300: percent('avg300'),
    totalUs: parseCount(values.get('total')) ?? 0n,
  };
}
