import { constants, open, readlink, type FileHandle } from 'node:fs/promises';
import { errnoOf, invalidArgument } from '../../lib/errors.ts';

/** Descriptor of a place, whatever it is, without opening it. Node has no name for it. */
const O_PATH = 0o10000000;
const MOST_LINKS = 40;

/**
 * Reads a file of an image as a process inside it would find it: links are followed, and none leads out of `root`. This is
 * openat2's RESOLVE_IN_ROOT taken apart, step by step on descriptors, because openat2 itself would have to wait for the
 * disk on the main thread. Undefined when there is no such file. Throws InvalidArgument for what is no regular file, is
 * larger than `maxBytes` or hides behind too many links.
 */
export async function readInRoot(root: string, path: string, maxBytes: number): Promise<string | undefined> {
  const opened: FileHandle[] = [];
  try {
    return await walk(root, path, maxBytes, opened);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return undefined;
    throw error;
  } finally {
    await Promise.all(opened.map((handle) => handle.close()));
  }
}

async function walk(root: string, path: string, maxBytes: number, opened: FileHandle[]): Promise<string | undefined> {
  const enter = async (place: string, flags: number): Promise<FileHandle> => {
    const handle = await open(place, flags);
    opened.push(handle);
    return handle;
  };
  const top = await enter(root, O_PATH | constants.O_DIRECTORY);
  // From the root down to where we are: `..` goes back on it and never above its first.
  let stack = [top];
  let rest = split(path);
  for (let links = 0; ;) {
    const name = rest.shift();
    if (name === undefined) throw invalidArgument(`${path}: is a folder in the image`);
    if (name === '..') {
      if (stack.length > 1) stack.pop();
      continue;
    }
    const place = `/proc/self/fd/${stack.at(-1)?.fd ?? top.fd}/${name}`;
    const link = await linkTarget(place);
    if (link !== undefined) {
      if (++links > MOST_LINKS) throw invalidArgument(`${path}: too many links in the image`);
      if (link.startsWith('/')) stack = [top];
      rest = [...split(link), ...rest];
    } else if (rest.length > 0) {
      stack.push(await enter(place, O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW));
    } else {
      // NONBLOCK: opening a FIFO would wait for a writer.
      const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY;
      return await content(await enter(place, flags), path, maxBytes);
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
