import { isDeepStrictEqual } from 'node:util';
import { apiError } from '../status-error.ts';
import { isRecord, setOwn } from '../validate/check-shape.ts';
import { mergeKeyOf } from './merge-keys.ts';

/**
 * Kubernetes' strategic merge patch: as a merge patch, but lists with a merge key are merged item by item, and
 * directives (`$patch`, `$retainKeys`, `$setElementOrder/…`, `$deleteFromPrimitiveList/…`) are obeyed. Leaves both arguments as they are.
 *
 * @throws BadRequest for an unknown directive
 */
export function strategicMerge(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return structuredClone(patch);
  if (patch['$patch'] === 'replace') return withoutDirectives(patch);
  if (patch['$patch'] === 'delete') return {};
  checkDirective(patch['$patch']);
  const merged: Record<string, unknown> = {};
  if (isRecord(target)) for (const [key, value] of Object.entries(target)) setOwn(merged, key, value);
  const retained = patch['$retainKeys'];
  if (Array.isArray(retained)) {
    for (const key of Object.keys(merged)) if (!retained.includes(key)) Reflect.deleteProperty(merged, key);
  }
  for (const [key, value] of Object.entries(patch)) {
    if (key.startsWith('$')) continue;
    const present = Object.hasOwn(merged, key) ? merged[key] : undefined;
    const mergeKey = mergeKeyOf(key);
    if (value === null) Reflect.deleteProperty(merged, key);
    else if (Array.isArray(value) && mergeKey !== undefined) setOwn(merged, key, mergeList(present, value, mergeKey));
    else setOwn(merged, key, strategicMerge(present, value));
  }
  listDirectives(merged, patch);
  return merged;
}

function mergeList(present: unknown, patch: readonly unknown[], mergeKey: string): unknown[] {
  const list: unknown[] = Array.isArray(present) ? [...(present as unknown[])] : [];
  if (patch.some((item) => isRecord(item) && item['$patch'] === 'replace')) {
    return structuredClone(patch.filter((item) => !(isRecord(item) && '$patch' in item)));
  }
  for (const item of patch) {
    if (mergeKey === '' || !isRecord(item)) {
      if (!list.some((each) => isDeepStrictEqual(each, item))) list.push(item);
      continue;
    }
    const key = item[mergeKey];
    if (key === undefined) throw apiError('BadRequest', `the patch has a list item without its merge key ${mergeKey}`);
    const at = list.findIndex((each) => isRecord(each) && each[mergeKey] === key);
    if (item['$patch'] === 'delete') {
      if (at >= 0) list.splice(at, 1);
    } else if (at >= 0) list[at] = strategicMerge(list[at], item);
    else list.push(strategicMerge({}, item));
  }
  return list;
}

function listDirectives(merged: Record<string, unknown>, patch: Record<string, unknown>): void {
  for (const [directive, value] of Object.entries(patch)) {
    if (!directive.startsWith('$') || directive === '$patch' || directive === '$retainKeys') continue;
    const [name, field = ''] = directive.split('/', 2);
    const list = Object.hasOwn(merged, field) ? merged[field] : undefined;
    if (name === '$deleteFromPrimitiveList') {
      if (Array.isArray(list) && Array.isArray(value)) {
        setOwn(
          merged,
          field,
          list.filter((item: unknown) => !value.includes(item)),
        );
      }
    } else if (name === '$setElementOrder') {
      if (Array.isArray(list) && Array.isArray(value))
        setOwn(merged, field, inOrder(list, value, mergeKeyOf(field) ?? ''));
    } else throw apiError('BadRequest', `unknown directive ${JSON.stringify(directive)} in the patch`);
  }
}

/** The items that the order names, in that order; each of the others stays behind the item that it stood behind. */
function inOrder(list: readonly unknown[], order: readonly unknown[], mergeKey: string): unknown[] {
  const keyOf = (item: unknown): unknown => (mergeKey !== '' && isRecord(item) ? item[mergeKey] : item);
  const ranks = new Map(order.map((item, index) => [keyOf(item), index]));
  let rank = -1;
  const ranked = list.map((item, index) => {
    rank = ranks.get(keyOf(item)) ?? rank;
    return { item, rank, index };
  });
  return ranked.sort((left, right) => left.rank - right.rank || left.index - right.index).map(({ item }) => item);
}

function withoutDirectives(patch: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(structuredClone(patch)).filter(([key]) => !key.startsWith('$')));
}

function checkDirective(directive: unknown): void {
  if (directive !== undefined && directive !== 'merge') {
    throw apiError('BadRequest', `unknown directive $patch: ${JSON.stringify(directive)} in the patch`);
  }
}
