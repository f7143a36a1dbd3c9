import { readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join, normalize } from 'node:path';
import { errnoOf, invalidArgument } from '../lib/errors.ts';
import { fromNodeError } from './errno.ts';

/** A v1 cpuset starts empty, and an empty one takes no process: fill it from its parent, top-down. */
export async function inheritCpuset(root: string, directory: string): Promise<void> {
  const below = directory.slice(root.length).split('/').filter(Boolean);
  let parent = root;
  for (const name of below) {
    const child = join(parent, name);
    for (const file of ['cpuset.cpus', 'cpuset.mems']) {
      const own = (await readCgroupFile(join(child, file)))?.trim();
      if (own !== '') continue;
      await writeCgroupFile(join(child, file), (await readCgroupFile(join(parent, file)))?.trim() ?? '');
    }
    parent = child;
  }
}

export async function childrenOf(directory: string): Promise<string[] | undefined> {
  try {
    const entries = await readdir(directory, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map((entry) => join(directory, entry.name));
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENODEV') return undefined;
    throw fromNodeError(error, `read cgroup ${basename(directory)}`);
  }
}

/** The directory and all below it; empty when it is not there. */
export async function deepestFirst(directory: string): Promise<string[]> {
  const children = await childrenOf(directory);
  if (children === undefined) return [];
  const below: string[] = [];
  for (const child of children) below.push(...(await deepestFirst(child)));
  return [...below, directory];
}

export async function readCgroupFile(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (['ENOENT', 'ENODEV', 'EOPNOTSUPP'].includes(errnoOf(error) ?? '')) return undefined;
    throw fromNodeError(error, `read ${path}`);
  }
}

export async function writeCgroupFile(path: string, value: string): Promise<void> {
  try {
    await writeFile(path, value, { flag: 'r+' });
  } catch (error) {
    throw fromNodeError(error, `write ${value} to ${path}`);
  }
}

export function words(text: string | undefined): string[] {
  return (text ?? '').trim().split(/\s+/).filter(Boolean);
}

/** An absolute path inside the tree, without `..`. */
export function cgroupPath(path: string): string {
  if (!isCgroupPath(path)) throw invalidArgument(`${JSON.stringify(path)}: not a cgroup path of ours`);
  return normalize(path).replace(/\/+$/, '');
}

/** What the kernel's name of a file can be; it takes no line break in that of a cgroup, and a path is of 4096 bytes with its mount point. */
const LONGEST_NAME_BYTES = 255;
const LONGEST_PATH_BYTES = 3072;

/** Whether there can be a cgroup of that path, other than the root of the tree. */
export function isCgroupPath(path: string): boolean {
  const names = path.split('/');
  if (!path.startsWith('/') || normalize(path) === '/' || names.includes('..')) return false;
  if (Buffer.byteLength(path) > LONGEST_PATH_BYTES || /[\0\n]/.test(path)) return false;
  return names.every((name) => Buffer.byteLength(name) <= LONGEST_NAME_BYTES);
}
