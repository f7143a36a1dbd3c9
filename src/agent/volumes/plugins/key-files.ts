import type { KeyToPath } from '../../../kube/objects.ts';
import { failedPrecondition } from '../../../lib/errors.ts';
import type { Payload } from './atomic-directory.ts';

/**
 * Which file gets which key of a ConfigMap or Secret: all of them, or those of `items`, where a missing key is an error
 * unless the volume is optional. Pure.
 */
export function keyFiles(
  what: string,
  data: ReadonlyMap<string, Buffer>,
  options: { readonly items?: readonly KeyToPath[]; readonly defaultMode: number; readonly optional: boolean },
): Payload {
  const files = new Map<string, { data: Buffer; mode: number }>();
  if (options.items === undefined || options.items.length === 0) {
    for (const [key, bytes] of data) files.set(key, { data: bytes, mode: options.defaultMode });
    return files;
  }
  for (const { key, path, mode } of options.items) {
    const bytes = data.get(key);
    if (bytes === undefined) {
      if (options.optional) continue;
      throw failedPrecondition(`${what} has no key ${key}`);
    }
    files.set(path, { data: bytes, mode: mode ?? options.defaultMode });
  }
  return files;
}
