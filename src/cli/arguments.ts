import { invalidArgument } from '../lib/errors.ts';
import { parseRfc3339 } from '../lib/rfc3339.ts';

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** Go's durations as kubectl reads them: `30s`, `1m30s`, `500ms`, `0`; a bare number is seconds. Returns milliseconds. */
export function parseDurationMs(flag: string, text: string): number {
  if (/^\d+$/.test(text)) return Number(text) * 1_000;
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)];
  if (parts.length === 0 || parts.map((part) => part[0]).join('') !== text) {
    throw invalidArgument(`invalid argument "${text}" for "${flag}": it should be a duration such as 30s or 1m30s`);
  }
  return parts.reduce((sum, [, amount, unit]) => sum + Number(amount) * (UNITS_MS[unit ?? ''] ?? 0), 0);
}

/** A whole number of at least `min`. */
export function parseWhole(flag: string, text: string, min = 0): number {
  const value = Number(text);
  if (!/^-?\d+$/.test(text) || value < min) {
    throw invalidArgument(`invalid argument "${text}" for "${flag}": it should be a whole number of at least ${min}`);
  }
  return value;
}

/** A time as the API reads it. */
export function parseTime(flag: string, text: string): string {
  if (parseRfc3339(text) !== undefined) return text;
  throw invalidArgument(
    `invalid argument "${text}" for "${flag}": it should be an RFC 3339 time such as 2026-01-31T12:00:00Z`,
  );
}
