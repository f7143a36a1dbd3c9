import { readdir, readFile, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { errnoOf, invalidArgument, messageOf } from '../lib/errors.ts';
import type { CliContext } from './context.ts';

export interface ManifestText {
  /** What to call it in messages: the path, or `stdin`. */
  readonly source: string;
  readonly bytes: Uint8Array;
}

const MANIFEST_NAME = /\.(ya?ml|json)$/;

/** Reads what `-f` names: files, folders (their .yaml, .yml and .json files, by name; deeper ones with `recursive`), `-` for stdin. */
export async function readManifests(
  context: CliContext,
  paths: readonly string[],
  recursive: boolean,
): Promise<ManifestText[]> {
  if (paths.length === 0)
    throw invalidArgument('must specify -f FILE (a manifest, a folder of manifests, or - for stdin)');
  const manifests: ManifestText[] = [];
  for (const path of paths) {
    if (path === '-') {
      manifests.push({ source: 'stdin', bytes: Buffer.from(await context.readStdin(), 'utf8') });
      continue;
    }
    if (/^https?:/.test(path))
      throw invalidArgument(`${path}: manifests are not fetched over the network; save it to a file first`);
    manifests.push(...(await readPath(resolve(context.cwd, path), path, recursive)));
  }
  return manifests;
}

async function readPath(path: string, shown: string, recursive: boolean): Promise<ManifestText[]> {
  try {
    if (!(await stat(path)).isDirectory()) return [{ source: shown, bytes: await readFile(path) }];
    const manifests: ManifestText[] = [];
    const entries = await readdir(path, { withFileTypes: true });
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const inner = join(path, entry.name);
      if (entry.isDirectory()) {
        if (recursive) manifests.push(...(await readPath(inner, join(shown, entry.name), recursive)));
      } else if (MANIFEST_NAME.test(entry.name)) {
        manifests.push({ source: join(shown, entry.name), bytes: await readFile(inner) });
      }
    }
    if (manifests.length === 0) throw invalidArgument(`${shown}: no .yaml, .yml or .json file in this folder`);
    return manifests;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') throw invalidArgument(`the path "${shown}" does not exist`);
    if (errnoOf(error) !== undefined) throw invalidArgument(`${shown}: ${messageOf(error)}`, { cause: error });
    throw error;
  }
}
