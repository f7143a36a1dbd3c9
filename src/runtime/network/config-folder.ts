import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf, messageOf } from '../../lib/errors.ts';
import { readNamedFile } from '../../linux/read-named-file.ts';
import { parseNetworkConfig, type NetworkConfig } from './network-config.ts';

export type FolderOutcome =
  | { readonly kind: 'found'; readonly config: NetworkConfig; readonly source: string }
  /** Nothing that looks like a configuration. */
  | { readonly kind: 'empty' }
  /** There are files, and none of them can be used. */
  | { readonly kind: 'unusable'; readonly problems: readonly string[] };

const EXTENSIONS = ['.conflist', '.conf', '.json'];
const LARGEST_FILE_BYTES = 1 << 20;

/**
 * The first usable configuration by file name. Read anew for each pod and each Status, so that a network add-on's file
 * counts from the moment at which it is there.
 */
export async function readConfigFolder(folder: string): Promise<FolderOutcome> {
  let names: string[];
  try {
    names = await readdir(folder);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return { kind: 'empty' };
    return { kind: 'unusable', problems: [`${folder}: ${messageOf(error)}`] };
  }
  const candidates = names.filter((name) => EXTENSIONS.some((extension) => name.endsWith(extension))).sort();
  const problems: string[] = [];
  for (const name of candidates) {
    const source = join(folder, name);
    try {
      return {
        kind: 'found',
        config: parseNetworkConfig(await readNamedFile(source, LARGEST_FILE_BYTES), source),
        source,
      };
    } catch (error) {
      problems.push(messageOf(error));
    }
  }
  return problems.length === 0 ? { kind: 'empty' } : { kind: 'unusable', problems };
}
