import { invalidArgument } from '../../../lib/errors.ts';
import { SparseRecords } from './sparse.ts';
import type { TarTime, TarXattr } from './tar-entry.ts';
import { parsePaxInteger, parsePaxTime } from './tar-numbers.ts';

/** What a pax header says about the member after it. */
export interface PaxOverrides {
  path?: string;
  linkPath?: string;
  size?: number;
  uid?: number;
  gid?: number;
  mtime?: TarTime;
  sparse?: SparseRecords;
  readonly xattrs: TarXattr[];
}

const XATTR_PREFIX = 'SCHILY.xattr.';
const SPARSE_PREFIX = 'GNU.sparse.';
const SPACE = 0x20;
const EQUALS = 0x3d;
const NEWLINE = 0x0a;

/**
 * Reads the records `<length> <key>=<value>\n` of a pax header. They are cut by their lengths and kept as bytes:
 * values of `SCHILY.xattr.security.capability` hold NULs, newlines and bytes that are no UTF-8, which is why
 * npm's tar-stream (it decodes the whole record as text) can not be used here.
 * A record with an empty value takes an earlier one back, so says POSIX.
 */
export function parsePax(data: Buffer): PaxOverrides {
  const overrides: PaxOverrides = { xattrs: [] };
  let at = 0;
  while (at < data.length) {
    const space = data.indexOf(SPACE, at);
    const digits = space < 0 ? '' : data.toString('latin1', at, space);
    const end = at + Number(digits);
    if (!/^[0-9]{1,9}$/.test(digits) || end > data.length || data[end - 1] !== NEWLINE) throw malformed();
    const equals = data.indexOf(EQUALS, space);
    if (equals < 0 || equals >= end) throw malformed();
    applyRecord(overrides, data.toString('latin1', space + 1, equals), data.subarray(equals + 1, end - 1));
    at = end;
  }
  return overrides;
}

function applyRecord(overrides: PaxOverrides, key: string, value: Buffer): void {
  if (key.startsWith(XATTR_PREFIX)) {
    const name = key.slice(XATTR_PREFIX.length);
    if (name === '' || name.includes('\0')) throw malformed();
    const known = overrides.xattrs.findIndex((xattr) => xattr.name === name);
    if (known >= 0) overrides.xattrs.splice(known, 1);
    // A copy: the record lies in a buffer that is used again.
    overrides.xattrs.push({ name, value: Buffer.from(value) });
    return;
  }
  if (key.startsWith(SPARSE_PREFIX)) {
    overrides.sparse ??= new SparseRecords();
    overrides.sparse.add(key.slice(SPARSE_PREFIX.length), value.toString('latin1'));
    return;
  }
  const text = value.toString('latin1');
  const present = text !== '';
  switch (key) {
    case 'path':
      overrides.path = present ? pathOf(text) : undefined;
      break;
    case 'linkpath':
      overrides.linkPath = present ? pathOf(text) : undefined;
      break;
    case 'size':
      overrides.size = present ? parsePaxInteger(text, key) : undefined;
      break;
    case 'uid':
      overrides.uid = present ? parsePaxInteger(text, key) : undefined;
      break;
    case 'gid':
      overrides.gid = present ? parsePaxInteger(text, key) : undefined;
      break;
    case 'mtime':
      overrides.mtime = present ? parsePaxTime(text, key) : undefined;
      break;
    default:
      // atime, ctime, uname, comment, vendors' records: nothing that a layer needs.
      break;
  }
}

function pathOf(text: string): string {
  if (text.includes('\0')) throw invalidArgument('tar: a pax path holds a NUL byte');
  return text;
}

function malformed(): Error {
  return invalidArgument('tar: malformed pax header');
}
