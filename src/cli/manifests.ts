import { readdir, readFile, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { errnoOf, invalidArgument, messageOf } from '../lib/errors.ts';
import { decodeManifest, type DecodedObject } from '../kube/validate/decode.ts';
import { line, type CliContext } from './context.ts';
import { errorText } from './error-text.ts';

interface ManifestFile {
  /** What to call it in messages: the path, or `stdin`. */
  readonly source: string;
  readonly read: () => Promise<Uint8Array>;
}

export interface ManifestOptions {
  /** What `-f` names: files, folders (their .yaml, .yml and .json files, by name), `-` for stdin. */
  readonly files: readonly string[];
  /** Folders with all that is below them. */
  readonly recursive: boolean;
}

export interface Manifests {
  /** All of every file that is whole. */
  readonly objects: readonly DecodedObject[];
  /** What there is to warn of in them. */
  readonly warnings: readonly string[];
  /** Whether a file is left out because something in it is wrong, which has been said. */
  readonly broken: boolean;
}

const MANIFEST_NAME = /\.(ya?ml|json)$/;

/**
 * Reads and checks manifests, file by file: of a file in which anything is wrong nothing is taken, and all that is wrong is said; it
 * does not hold up the others.
 *
 * @param check throws for an object that is no good for this command: its file is broken then
 * @throws InvalidArgument for what `-f` cannot name
 */
export async function readManifests(
  context: CliContext,
  options: ManifestOptions,
  check: (decoded: DecodedObject) => void = () => undefined,
): Promise<Manifests> {
  const objects: DecodedObject[] = [];
  const warnings: string[] = [];
  let broken = false;
  for (const { source, read } of await findFiles(context, options)) {
    try {
      const decoded = decodeManifest(await read(), source);
      decoded.objects.forEach(check);
      warnings.push(...decoded.warnings);
      objects.push(...decoded.objects);
    } catch (error) {
      await line(context.err, errorText(error));
      broken = true;
    }
  }
  return { objects, warnings, broken };
}

async function findFiles(context: CliContext, { files, recursive }: ManifestOptions): Promise<ManifestFile[]> {
  if (files.length === 0)
    throw invalidArgument('must specify -f FILE (a manifest, a folder of manifests, or - for stdin)');
  // Else it would be the folder that one is in: `-f "$NOT_SET"` must not delete what is named there.
  if (files.includes('')) throw invalidArgument('-f "": the path is empty; the folder that you are in is -f .');
  const found: ManifestFile[] = [];
  for (const path of files) {
    if (path === '-') {
      found.push({ source: 'stdin', read: async () => Buffer.from(await context.readStdin(), 'utf8') });
      continue;
    }
    if (/^https?:/.test(path))
      throw invalidArgument(`${path}: manifests are not fetched over the network; save it to a file first`);
    found.push(...(await filesAt(resolve(context.cwd, path), path, recursive)));
  }
  return found;
}

async function filesAt(path: string, shown: string, recursive: boolean): Promise<ManifestFile[]> {
  const isFolder = (await named(shown, stat(path))).isDirectory();
  if (!isFolder) return [fileAt(path, shown)];
  const files = await filesBelow(path, shown, recursive);
  if (files.length === 0) throw invalidArgument(`${shown}: no .yaml, .yml or .json file in this folder`);
  return files;
}

async function filesBelow(path: string, shown: string, recursive: boolean): Promise<ManifestFile[]> {
  const files: ManifestFile[] = [];
  const entries = await named(shown, readdir(path, { withFileTypes: true }));
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const [inner, innerShown] = [join(path, entry.name), join(shown, entry.name)];
    if (entry.isDirectory()) {
      if (recursive) files.push(...(await filesBelow(inner, innerShown, recursive)));
    } else if (MANIFEST_NAME.test(entry.name)) files.push(fileAt(inner, innerShown));
  }
  return files;
}

function fileAt(path: string, shown: string): ManifestFile {
  return { source: shown, read: () => named(shown, readFile(path)) };
}

/** Says of which path a call of the file system has failed. */
async function named<T>(shown: string, call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') throw invalidArgument(`the path "${shown}" does not exist`);
    throw invalidArgument(`${shown}: ${messageOf(error)}`, { cause: error });
  }
}
