import { chmod, lstat, mkdir, readdir, readFile, readlink, rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { randomBytes } from 'node:crypto';
import { errnoOf, failedPrecondition } from '../../../lib/errors.ts';
import { unlinkIfThere } from '../../../lib/may-be-gone.ts';

/** Path below the volume to what lies there. */
export type Payload = ReadonlyMap<string, { readonly data: Buffer; readonly mode: number }>;

const CURRENT = '..data';
const NEXT = '..data_tmp';
const VERSION = /^\.\.\d{4}_\d\d_\d\d_/;

/**
 * Replaces a directory's whole content in one step, as Kubernetes does and programs expect: the files lie in a
 * directory with the time in its name, `..data` is a link to it and each visible name a link through `..data`. Renaming a
 * new `..data` over the old one switches all files at once. Answers the old version's directory, for the caller to delete,
 * or nothing if the content was the same already.
 */
export async function writeAtomicDirectory(
  directory: string,
  payload: Payload,
  nowWallMs: number,
): Promise<{ readonly changed: boolean; readonly stale: readonly string[] }> {
  for (const path of payload.keys()) checkPath(path);
  const current = await linkTarget(join(directory, CURRENT));
  if (current !== undefined && (await same(join(directory, current), payload))) {
    await linkNames(directory, payload);
    return { changed: false, stale: await staleVersions(directory, current) };
  }
  const version = await writeVersion(directory, payload, nowWallMs);
  await unlinkIfThere(join(directory, NEXT));
  await symlink(version, join(directory, NEXT));
  await rename(join(directory, NEXT), join(directory, CURRENT));
  await linkNames(directory, payload);
  await dropNames(directory, payload);
  return { changed: true, stale: await staleVersions(directory, version) };
}

function checkPath(path: string): void {
  const parts = path.split('/');
  const bad = path === '' || parts.some((part) => part === '' || part === '.' || part === '..');
  if (bad || path.startsWith('..') || path.includes('\0')) {
    throw failedPrecondition(`${JSON.stringify(path)} is not a path inside the volume`);
  }
}

async function linkTarget(path: string): Promise<string | undefined> {
  try {
    const target = await readlink(path);
    return VERSION.test(target) && !target.includes('/') ? target : undefined;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'EINVAL') return undefined;
    throw error;
  }
}

async function same(version: string, payload: Payload): Promise<boolean> {
  try {
    const present = await filesBelow(version, '');
    if (present.length !== payload.size) return false;
    for (const [path, { data, mode }] of payload) {
      const info = await lstat(join(version, path));
      if (!info.isFile() || (info.mode & 0o777) !== (mode & 0o777)) return false;
      if (!data.equals(await readFile(join(version, path)))) return false;
    }
    return true;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
}

async function filesBelow(root: string, below: string): Promise<string[]> {
  const entries = await readdir(join(root, below), { withFileTypes: true });
  const found = entries.map(async (entry) => {
    const path = join(below, entry.name);
    return entry.isDirectory() ? await filesBelow(root, path) : [path];
  });
  return (await Promise.all(found)).flat();
}

async function writeVersion(directory: string, payload: Payload, nowWallMs: number): Promise<string> {
  const stamp = new Date(nowWallMs).toISOString().slice(0, 19).replaceAll(/[-T:]/g, '_');
  const version = `..${stamp}.${randomBytes(5).toString('hex')}`;
  const root = join(directory, version);
  await mkdir(root);
  await chmod(root, 0o755);
  for (const [path, { data, mode }] of payload) {
    for (let depth = 1, parts = path.split('/'); depth < parts.length; depth++) {
      const parent = join(root, ...parts.slice(0, depth));
      await mkdir(parent, { recursive: true });
      await chmod(parent, 0o755);
    }
    await writeFile(join(root, path), data, { flag: 'wx', mode });
    // Past the umask.
    await chmod(join(root, path), mode);
  }
  return version;
}

function topNames(payload: Payload): Set<string> {
  return new Set([...payload.keys()].map((path) => path.split('/')[0] ?? ''));
}

async function linkNames(directory: string, payload: Payload): Promise<void> {
  for (const name of topNames(payload)) {
    try {
      await symlink(join(CURRENT, name), join(directory, name));
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw error;
    }
  }
}

/** Names that the new content no longer has. Only links of ours are taken away. */
async function dropNames(directory: string, payload: Payload): Promise<void> {
  const keep = topNames(payload);
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    if (!entry.isSymbolicLink() || entry.name.startsWith('..') || keep.has(entry.name)) continue;
    const target = await readlink(join(directory, entry.name));
    if (target === join(CURRENT, entry.name)) await unlinkIfThere(join(directory, entry.name));
  }
}

async function staleVersions(directory: string, current: string): Promise<string[]> {
  const names = await readdir(directory);
  return names.filter((name) => VERSION.test(name) && name !== current).map((name) => join(directory, name));
}
