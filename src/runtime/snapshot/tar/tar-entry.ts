/**
 * What one member of a tar archive says, decoded but not judged.
 *
 * Names are bytes to Linux, and archives hold names that are no UTF-8. So every name here is a **byte string**: a
 * JavaScript string with one char per byte (latin1). {@link displayName} makes it readable, `pathArgument` (in
 * `unpack/`) makes it an argument of a system call.
 */
export interface TarEntry {
  readonly type: TarEntryType;
  /** Byte string, as it stands in the archive: may be absolute, hold `..`, end in `/`. */
  readonly path: string;
  /** Byte string; the target of a `link` (a member's path) or of a `symlink` (verbatim). Else empty. */
  readonly linkPath: string;
  /** The twelve permission bits. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  /** Of the file, holes and all. Zero for everything but a file. */
  readonly size: number;
  /** Bytes of content that follow, where they are not the whole file: it is sparse. */
  readonly storedBytes?: number;
  readonly mtime: TarTime;
  readonly deviceMajor: number;
  readonly deviceMinor: number;
  readonly xattrs: readonly TarXattr[];
}

export type TarEntryType = 'file' | 'link' | 'symlink' | 'character-device' | 'block-device' | 'directory' | 'fifo';

export interface TarXattr {
  /** Byte string: `security.capability`. */
  readonly name: string;
  /** Binary, and in general no UTF-8. */
  readonly value: Buffer;
}

/** Since the epoch; seconds may be negative, nanoseconds are in 0..999,999,999. */
export interface TarTime {
  readonly seconds: number;
  readonly nanoseconds: number;
}

export const BLOCK_BYTES = 512;

/** A byte string as a person reads it: UTF-8, control characters escaped, cut to a bearable length. */
export function displayName(name: string): string {
  const text = Buffer.from(name.length > 300 ? `${name.slice(0, 300)}...` : name, 'latin1').toString('utf8');
  return JSON.stringify(text);
}
