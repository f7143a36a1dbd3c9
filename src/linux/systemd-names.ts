import { basename, dirname } from 'node:path';
import { invalidArgument } from '../lib/errors.ts';

/**
 * How systemd names the cgroups that are its units: a slice's name has the names of those above it in it, and so says where it is
 * (`a-b.slice` is `/a.slice/a-b.slice`). Pure.
 */

const SLICE = '.slice';
const SCOPE = '.scope';
/** Unit names are no longer, and file names neither. */
const LONGEST_NAME = 255;
const SLICE_NAME = /^(?:[A-Za-z0-9:_.]|\\x[0-9a-f]{2})+(?:-(?:[A-Za-z0-9:_.]|\\x[0-9a-f]{2})+)*\.slice$/;

export function isSlice(name: string): boolean {
  return name.endsWith(SLICE);
}

/** Path below the cgroup mount of a slice (`a-b.slice`). Throws InvalidArgument for what is no name of one, and for the root's (`-.slice`). */
export function slicePath(name: string): string {
  if (!SLICE_NAME.test(name) || name.length > LONGEST_NAME) throw invalidArgument(`${name} is no name of a slice`);
  let path = '';
  let above = '';
  for (const part of name.slice(0, -SLICE.length).split('-')) {
    above = above === '' ? part : `${above}-${part}`;
    path += `/${above}${SLICE}`;
  }
  return path;
}

/** A slice below another one: both are paths. What would read as a level of its own in `name` is replaced, as kubelet does it: `-` by `_`. */
export function sliceBelow(parent: string, name: string): string {
  return `${parent}/${basename(parent, SLICE)}-${slicePart(name)}${SLICE}`;
}

/** The slice that a cgroup path stands for, one level for each of its own: `/a/b-c` is `a-b_c.slice`. */
export function sliceOfPath(path: string): string {
  return `${path
    .split('/')
    .filter((part) => part !== '')
    .map(slicePart)
    .join('-')}${SLICE}`;
}

/** Any text as one level of a slice's name. */
function slicePart(text: string): string {
  return text
    .replaceAll('-', '_')
    .replace(/[^A-Za-z0-9:_.]/gu, (character) =>
      [...Buffer.from(character)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join(''),
    );
}

/** The unit whose cgroup that path is, where its name is one of a slice's or a scope's; systemd gives such names to nothing else. */
export function unitOfCgroup(path: string): string | undefined {
  const name = basename(path);
  return name.endsWith(SLICE) || name.endsWith(SCOPE) ? name : undefined;
}

/**
 * Where a container's processes are, below its pod's slice: in a scope, which systemd takes away with the last of them, in a slice of the
 * container's own, which stays and with it what the kernel has counted (docs/decisions, "Cgroups that are systemd's").
 *
 * @param prefix says whose it is; `id` has no dash
 */
export function containerScope(podSlice: string, prefix: string, id: string): string {
  return `${sliceBelow(podSlice, id)}/${prefix}-${id}${SCOPE}`;
}

/** The slice that is a container's own, of the scope in it; of any other path that path. */
export function wholeOfContainer(path: string): string {
  if (!path.endsWith(SCOPE)) return path;
  const id = basename(path, SCOPE).split('-').at(-1) ?? '';
  return basename(dirname(path)).endsWith(`-${id}${SLICE}`) ? dirname(path) : path;
}

/** What the OCI specification wants to hear of a scope: `SLICE:PREFIX:NAME`. */
export function ociScope(path: string): string {
  const [, prefix = '', id = ''] = /^(.*)-([^-]*)$/.exec(basename(path, SCOPE)) ?? [];
  return `${basename(dirname(path))}:${prefix}:${id}`;
}
