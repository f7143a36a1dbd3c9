import { isRecord, setOwn } from '../validate/check-shape.ts';

/** RFC 7386: maps are merged, null removes, everything else replaces. Leaves both arguments as they are. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return structuredClone(patch);
  const merged: Record<string, unknown> = {};
  if (isRecord(target)) for (const [key, value] of Object.entries(target)) setOwn(merged, key, value);
  for (const [key, value] of Object.entries(patch)) {
    const present = Object.hasOwn(merged, key) ? merged[key] : undefined;
    if (value === null) Reflect.deleteProperty(merged, key);
    else setOwn(merged, key, mergePatch(present, value));
  }
  return merged;
}
