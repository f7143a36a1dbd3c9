import { invalidArgument } from '../../../lib/errors.ts';
import { displayName } from '../tar/tar-entry.ts';

/**
 * Where a layer's member goes: a path below the layer's root as byte strings, without a leading slash, `.` or `..`.
 * `parent` is empty for what lies in the root; `name` is empty for the root itself.
 */
export interface EntryPath {
  readonly parent: string;
  readonly name: string;
}

export const WHITEOUT_PREFIX = '.wh.';
const WHITEOUT_META_PREFIX = '.wh..wh.';
export const OPAQUE_NAME = '.wh..wh..opq';

/** Has an empty, `.` or `..` component (also by a leading or trailing slash). Most names have none. */
const UNCLEAN = /(?:^|\/)(?:\.{0,2})(?:\/|$)/;

/**
 * The path of a member's name: a leading `/` means the layer's root, `.` and `//` are dropped, `..` is taken back
 * lexically. It decides only what we *ask* for: the kernel's resolution in the layer's root keeps it inside.
 * @throws InvalidArgument when it is empty or climbs out of the root.
 */
export function entryPath(name: string): EntryPath {
  const clean = UNCLEAN.test(name) ? cleaned(name) : name;
  const slash = clean.lastIndexOf('/');
  return slash < 0 ? { parent: '', name: clean } : { parent: clean.slice(0, slash), name: clean.slice(slash + 1) };
}

function cleaned(name: string): string {
  if (name === '') throw invalidArgument('a member of the layer has no name');
  const kept: string[] = [];
  for (const part of name.split('/')) {
    if (part === '' || part === '.') continue;
    if (part !== '..') kept.push(part);
    else if (kept.pop() === undefined) {
      throw invalidArgument(`layer member ${displayName(name)}: climbs out of the layer`);
    }
  }
  return kept.join('/');
}

export type EntryMeaning =
  /** An ordinary member. */
  | { readonly kind: 'plain' }
  /** The directory `path.parent` hides what the layers below have in it. */
  | { readonly kind: 'opaque' }
  /** `name` beside the marker is deleted. */
  | { readonly kind: 'whiteout'; readonly name: string }
  /** Book-keeping of a storage driver that is long gone (aufs): no content. */
  | { readonly kind: 'ignored' };

const PLAIN: EntryMeaning = { kind: 'plain' };

/**
 * What the OCI's `.wh.` names say.
 * @throws InvalidArgument for a name that no tool writes and that would mean `.`, `..` or nothing.
 */
export function entryMeaning(path: EntryPath): EntryMeaning {
  // indexOf first: nearly no name has it.
  if (!path.name.startsWith(WHITEOUT_PREFIX) && !path.parent.includes(WHITEOUT_PREFIX)) return PLAIN;
  for (const part of path.parent.split('/')) {
    if (part.startsWith(WHITEOUT_META_PREFIX)) return { kind: 'ignored' };
    if (part.startsWith(WHITEOUT_PREFIX)) {
      throw invalidArgument(`layer member ${displayName(path.name)}: lies inside the whiteout ${displayName(part)}`);
    }
  }
  if (path.name === OPAQUE_NAME) return { kind: 'opaque' };
  if (path.name.startsWith(WHITEOUT_META_PREFIX)) return { kind: 'ignored' };
  if (!path.name.startsWith(WHITEOUT_PREFIX)) return PLAIN;
  const name = path.name.slice(WHITEOUT_PREFIX.length);
  if (name === '' || name === '.' || name === '..') {
    throw invalidArgument(`layer member ${displayName(path.name)}: is a whiteout of no name`);
  }
  return { kind: 'whiteout', name };
}
