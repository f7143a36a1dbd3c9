import { invalidArgument } from '../lib/errors.ts';

/** Suffix to power: decimal of ten, binary of two. */
const DECIMAL: Readonly<Record<string, number>> = { n: -9, u: -6, m: -3, '': 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };
const BINARY: Readonly<Record<string, number>> = { Ki: 10, Mi: 20, Gi: 30, Ti: 40, Pi: 50, Ei: 60 };
const FORM = /^([+-]?)(\d+\.?\d*|\.\d+)(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?\d{1,3}))?$/;
const LARGEST = (1n << 63n) - 1n;
/** Nobody writes longer ones, and arithmetic on a megabyte of digits would stall the daemon. */
const LONGEST = 64;

/** A Kubernetes quantity in billionths of its unit, exactly; undefined for what is none. */
function nanosOf(text: string): bigint | undefined {
  const match = text.length > LONGEST ? null : FORM.exec(text);
  if (match === null) return undefined;
  const [, sign, number = '', binary, decimal, exponent] = match;
  const [whole = '', fraction = ''] = number.split('.');
  let value = BigInt(`${whole}${fraction}` || '0');
  let power = 9 - fraction.length;
  if (binary !== undefined) value <<= BigInt(BINARY[binary] ?? 0);
  else power += exponent === undefined ? (DECIMAL[decimal ?? ''] ?? 0) : Number(exponent);
  // Finer than a billionth is rounded up (away from zero), as the API does with what it cannot hold.
  if (power >= 0) value *= 10n ** BigInt(power);
  else {
    const divisor = 10n ** BigInt(-power);
    value = (value + divisor - 1n) / divisor;
  }
  return sign === '-' ? -value : value;
}

export function isQuantity(text: string): boolean {
  return nanosOf(text) !== undefined;
}

/** Below, equal or above: negative, 0, positive. Both must be quantities. */
export function compareQuantities(left: string, right: string): number {
  const difference = (nanosOf(left) ?? 0n) - (nanosOf(right) ?? 0n);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

/** Whole units, rounded up: bytes of `64Mi` or `1.5Gi`. Throws InvalidArgument. */
export function quantityToNumber(text: string): number {
  return scaled(text, 1_000_000_000n);
}

/** Thousandths, rounded up: 500 of `0.5` or `500m`. Throws InvalidArgument. */
export function quantityToMilli(text: string): number {
  return scaled(text, 1_000_000n);
}

function scaled(text: string, unit: bigint): number {
  const nanos = nanosOf(text);
  if (nanos === undefined) throw invalidArgument(`${JSON.stringify(text)} is not a quantity such as 500m, 1.5 or 64Mi`);
  const negative = nanos < 0n;
  const size = ((negative ? -nanos : nanos) + unit - 1n) / unit;
  return Number((negative ? -1n : 1n) * (size > LARGEST ? LARGEST : size));
}
