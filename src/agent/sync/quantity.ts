import { invalidArgument } from '../../lib/errors.ts';

const SUFFIXES: Readonly<Record<string, number>> = {
  '': 1,
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** A Kubernetes quantity (`100m`, `64Mi`, `1e3`) as a number. Throws InvalidArgument. */
export function parseQuantity(text: string | number): number {
  const match = /^([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)$/.exec(String(text));
  if (match === null) throw invalidArgument(`${JSON.stringify(text)} is not a quantity`);
  const [, digits = '0', exponent = '', suffix = ''] = match;
  return Number(`${digits}${exponent}`) * (SUFFIXES[suffix] ?? 1);
}

/** Bytes, rounded up. */
export function quantityBytes(text: string | number): number {
  return Math.ceil(parseQuantity(text));
}

/** CPU in thousandths of a core, rounded up. */
export function quantityMilli(text: string | number): number {
  // Through a rounded intermediate, else 0.1 * 1000 becomes 100.00000000000001 and is rounded up to 101.
  return Math.ceil(Math.round(parseQuantity(text) * 1e9) / 1e6);
}
