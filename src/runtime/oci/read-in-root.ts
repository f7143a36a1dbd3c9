import { constants, lstat, open, readlink, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf, invalidArgument } from '../../lib/errors.ts';

/** Descriptor of a place, whatever it is, without opening it. Node has no name for it. */
const O_PATH = 0o10000000;
const MOST_LINKS = 40;

/**
 * Reads a file of an image as a process inside it would find it: links are followed, and none leads out of `root`.
 * Undefined when there is no such file. Throws InvalidArgument for what is no regular file, is larger than `maxBytes` or hides behind too
 * many links.
 */
export async function readInRoot(root: string, path: string, maxBytes: number): Promise<string | undefined> {
  return await inRoot(root, path, async ({ last }, opened) => {
    if (last === undefined) throw invalidArgument(`${path}: is a folder in the image`);
    // NONBLOCK: opening a FIFO would wait for a writer.
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY;
    const file = await open(last, flags);
    opened.push(file);
    return await content(file, path, maxBytes);
  });
}

/**
 * Where something of an image is, as a path below `root` without a link in it; it stays true for as long as nothing changes below `root`.
 * Undefined when there is no such place. Throws InvalidArgument for one that hides behind too many links.
 */
export async function placeInRoot(root: string, path: string): Promise<string | undefined> {
  return await inRoot(root, path, async ({ last, names }) => {
    if (last !== undefined) await lstat(last);
    return join(root, ...names);
  });
}

interface Found {
  /** From the root down, without links. */
  readonly names: readonly string[];
  /** A path to it through the descriptor of its folder; undefined: it is the root, or a folder that `..` led back to. */
  readonly last: string | undefined;
}

async function inRoot<T>(
  root: string,
  path: string,
  use: (found: Found, opened: FileHandle[]) => Promise<T>,
): Promise<T | undefined> {
  const opened: FileHandle[] = [];
  try {
    return await use(await walk(root, path, opened), opened);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return undefined;
    throw error;
  } finally {
    await Promise.all(opened.map((handle) => handle.close()));
  }
}

/**
 * This is openat2's RESOLVE_IN_ROOT taken apart, step by step on descriptors, because openat2 itself would have to wait for the disk on
 * the main thread.
 */
async function walk(root: string, path: string, opened: FileHandle[]): Promise<Found> {
  const enter = async (place: string, flags: number): Promise<FileHandle> => {
    const handle = await open(place, flags);
    opened.push(handle);
    return handle;
  };
  const top = await enter(root, O_PATH | constants.O_DIRECTORY);
  // From the root down to where we are: `..` goes back on it and never above its first.
  let stack: { readonly name: string; readonly folder: FileHandle }[] = [];
  let rest = split(path);
  for (let links = 0; ;) {
    const name = rest.shift();
    const names = stack.map((entry) => entry.name);
    if (name === undefined) return { names, last: undefined };
    if (name === '..') {
      stack.pop();
      continue;
    }
    const place = `/proc/self/fd/${(stack.at(-1)?.folder ?? top).fd}/${name}`;
    const link = await linkTarget(place);
    if (link !== undefined) {
      if (++links > MOST_LINKS) throw invalidArgument(`${path}: too many links in the image`);
      if (link.startsWith('/')) stack = [];
      rest = [...split(link), ...rest];
    } else if (rest.length > 0) {
      const folder = await enter(place, O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW);
      stack.push({ name, folder });
    } else {
      return { names: [...names, name], last: place };
    }
  }
}

async function linkTarget(place: string): Promise<string | undefined> {
  try {
    return await readlink(place);
  } catch (error) {
    if (errnoOf(error) === 'EINVAL') return undefined;
    throw error;
  }
}

async function content(file: FileHandle, path: string, maxBytes: number): Promise<string> {
  const stats = await file.stat();
  if (!stats.isFile()) throw invalidArgument(`${path}: not a regular file in the image`);
  if (stats.size > maxBytes) throw invalidArgument(`${path}: ${stats.size} bytes in the image, more than ${maxBytes}`);
  return await file.readFile('utf8');
}

function split(path: string): string[] {
  return path.split('/').filter((name) => name !== '' && name !== '.');
}
