import { invalidArgument } from '../../lib/errors.ts';
import type { KubeObject } from '../../kube/objects.ts';
import { compareQuantities, isQuantity } from '../../kube/quantity.ts';
import { findAll, parsePath, textOf } from './json-path.ts';

/** By a field, as `--sort-by` names it; those without the field come first. Throws InvalidArgument if no object has it. */
export function sortObjects<T extends KubeObject>(objects: readonly T[], by: string): T[] {
  const path = parsePath(by);
  const keyed = objects.map((object) => ({ object, key: findAll(path, object)[0] }));
  if (objects.length > 0 && keyed.every(({ key }) => key === undefined))
    throw invalidArgument(`--sort-by: none of the objects has a field ${by}`);
  return keyed.sort((left, right) => compareValues(left.key, right.key)).map(({ object }) => object);
}

function compareValues(left: unknown, right: unknown): number {
  if (left === undefined || right === undefined) return Number(right === undefined) - Number(left === undefined);
  if (typeof left === 'number' && typeof right === 'number') return left - right;
  if (typeof left === 'string' && typeof right === 'string') {
    return isQuantity(left) && isQuantity(right) ? compareQuantities(left, right) : compareNaturally(left, right);
  }
  return compareNaturally(textOf(left), textOf(right));
}

/** Texts by their letters, the numbers in them by their size: `a-9` before `a-10`. */
function compareNaturally(left: string, right: string): number {
  const [lefts, rights] = [left, right].map((text) => text.match(/\d+|\D+/g) ?? []);
  for (const [index, a] of (lefts ?? []).entries()) {
    const b = rights?.[index];
    if (b === undefined) return 1;
    const order = /^\d/.test(a) && /^\d/.test(b) ? Number(a) - Number(b) : a < b ? -1 : Number(a > b);
    if (order !== 0) return order;
  }
  return (lefts?.length ?? 0) - (rights?.length ?? 0);
}
