import { isDeepStrictEqual } from 'node:util';
import { isRecord, setOwn } from '../validate/check-shape.ts';
import { mergeKeyOf } from './merge-keys.ts';

/**
 * What an object becomes when a manager applies `wanted`: its fields are set; those that it applied the last time (`before`) and
 * does not mention now are removed; all others stay as they are in `live`. Lists with a merge key go item by item.
 */
export function applyMerge(before: unknown, wanted: unknown, live: unknown): unknown {
  if (!isRecord(wanted)) return structuredClone(wanted);
  const merged: Record<string, unknown> = {};
  if (isRecord(live)) for (const [key, value] of Object.entries(live)) setOwn(merged, key, value);
  const past = isRecord(before) ? before : {};
  for (const key of Object.keys(past)) {
    if (Object.hasOwn(wanted, key) || !Object.hasOwn(merged, key)) continue;
    const rest = withdraw(past[key], merged[key], key);
    if (rest === undefined) Reflect.deleteProperty(merged, key);
    else setOwn(merged, key, rest);
  }
  for (const [key, value] of Object.entries(wanted)) {
    const present = Object.hasOwn(merged, key) ? merged[key] : undefined;
    const mergeKey = mergeKeyOf(key);
    const pastValue = Object.hasOwn(past, key) ? past[key] : undefined;
    if (Array.isArray(value) && mergeKey !== undefined)
      setOwn(merged, key, applyList(pastValue, value, present, mergeKey));
    else setOwn(merged, key, applyMerge(pastValue, value, present));
  }
  return merged;
}

/** What is left of `live` without what was applied in `before`; undefined for nothing. */
function withdraw(before: unknown, live: unknown, field: string): unknown {
  const mergeKey = mergeKeyOf(field);
  if (Array.isArray(before) && Array.isArray(live) && mergeKey !== undefined) {
    const gone = before.map((item: unknown) => keyOf(item, mergeKey));
    const rest = live.filter((item: unknown) => !gone.some((key) => isDeepStrictEqual(key, keyOf(item, mergeKey))));
    return rest.length === 0 ? undefined : rest;
  }
  if (!isRecord(before) || !isRecord(live)) return undefined;
  const rest = applyMerge(before, {}, live) as Record<string, unknown>;
  return Object.keys(rest).length === 0 ? undefined : rest;
}

function applyList(before: unknown, wanted: readonly unknown[], live: unknown, mergeKey: string): unknown[] {
  const past: readonly unknown[] = Array.isArray(before) ? before : [];
  const present: readonly unknown[] = Array.isArray(live) ? live : [];
  const find = (list: readonly unknown[], key: unknown): unknown =>
    list.find((item) => isDeepStrictEqual(keyOf(item, mergeKey), key));
  const mine = wanted.map((item) => {
    const key = keyOf(item, mergeKey);
    return applyMerge(find(past, key), item, find(present, key));
  });
  // What others added comes behind what is asked for; what was asked for before and is not now goes.
  const others = present.filter((item) => {
    const key = keyOf(item, mergeKey);
    return find(wanted, key) === undefined && find(past, key) === undefined;
  });
  return [...mine, ...structuredClone(others)];
}

/** Two ports may share a number under different protocols. */
function keyOf(item: unknown, mergeKey: string): unknown {
  if (mergeKey === '' || !isRecord(item)) return item;
  if (mergeKey === 'containerPort') return [item[mergeKey], item['protocol'] ?? 'TCP'];
  return item[mergeKey];
}
