import { BLOCK_BYTES, type TarEntry, type TarEntryType } from './tar-entry.ts';

const FLAGS: Readonly<Record<TarEntryType, string>> = {
  file: '0',
  link: '1',
  symlink: '2',
  'character-device': '3',
  'block-device': '4',
  directory: '5',
  fifo: '6',
};

const NOT_ASCII = /[^\x20-\x7e]/;
const MAX_OCTAL_ID = 0o7777777;
const MAX_OCTAL_12 = 0o77777777777;

/** The header blocks of a member: a pax header in front where ustar's fields do not hold it. Same entry, same bytes. */
export function tarHeader(entry: TarEntry): Buffer {
  const records = paxRecords(entry);
  const blocks = [ustar(entry)];
  if (records.length > 0) {
    const body = Buffer.concat(records);
    const pax: TarEntry = {
      ...{ type: 'file', path: 'PaxHeaders/entry', linkPath: '', mode: 0o644, uid: 0, gid: 0, size: body.length },
      ...{ mtime: { seconds: 0, nanoseconds: 0 }, deviceMajor: 0, deviceMinor: 0, xattrs: [] },
    };
    blocks.unshift(ustar(pax, 'x'), body, tarPadding(body.length));
  }
  return Buffer.concat(blocks);
}

/** The zeros after a content of this length. */
export function tarPadding(sizeBytes: number): Buffer {
  return Buffer.alloc((BLOCK_BYTES - (sizeBytes % BLOCK_BYTES)) % BLOCK_BYTES);
}

export function tarEnd(): Buffer {
  return Buffer.alloc(2 * BLOCK_BYTES);
}

function paxRecords(entry: TarEntry): Buffer[] {
  const records: Buffer[] = [];
  const add = (key: string, value: Buffer | string): void => {
    records.push(paxRecord(key, typeof value === 'string' ? Buffer.from(value, 'latin1') : value));
  };
  if (entry.path.length > 100 || NOT_ASCII.test(entry.path)) add('path', entry.path);
  if (entry.linkPath.length > 100 || NOT_ASCII.test(entry.linkPath)) add('linkpath', entry.linkPath);
  if (entry.size > MAX_OCTAL_12) add('size', String(entry.size));
  if (entry.uid > MAX_OCTAL_ID) add('uid', String(entry.uid));
  if (entry.gid > MAX_OCTAL_ID) add('gid', String(entry.gid));
  const { seconds, nanoseconds } = entry.mtime;
  if (nanoseconds !== 0 || seconds < 0 || seconds > MAX_OCTAL_12) add('mtime', paxTime(seconds, nanoseconds));
  for (const { name, value } of entry.xattrs) add(`SCHILY.xattr.${name}`, value);
  return records;
}

function paxTime(seconds: number, nanoseconds: number): string {
  const fraction = (n: number): string => (n === 0 ? '' : `.${String(n).padStart(9, '0')}`);
  if (seconds >= 0 || nanoseconds === 0) return `${String(seconds)}${fraction(nanoseconds)}`;
  return `-${String(-seconds - 1)}${fraction(1_000_000_000 - nanoseconds)}`;
}

/** `<length> <key>=<value>\n`, where the length counts its own digits. */
export function paxRecord(key: string, value: Buffer): Buffer {
  const rest = Buffer.concat([Buffer.from(` ${key}=`, 'latin1'), value, Buffer.from('\n')]);
  let length = rest.length + 1;
  while (String(length).length + rest.length !== length) length = String(length).length + rest.length;
  return Buffer.concat([Buffer.from(String(length)), rest]);
}

function ustar(entry: TarEntry, flag = FLAGS[entry.type]): Buffer {
  const block = Buffer.alloc(BLOCK_BYTES);
  const octal = (at: number, digits: number, value: number): void => {
    block.write(value.toString(8).padStart(digits, '0'), at, 'latin1');
  };
  block.write(entry.path.slice(0, 100), 0, 'latin1');
  octal(100, 7, entry.mode);
  octal(108, 7, entry.uid > MAX_OCTAL_ID ? 0 : entry.uid);
  octal(116, 7, entry.gid > MAX_OCTAL_ID ? 0 : entry.gid);
  octal(124, 11, entry.size > MAX_OCTAL_12 ? 0 : entry.size);
  octal(136, 11, Math.min(Math.max(entry.mtime.seconds, 0), MAX_OCTAL_12));
  block.write(flag, 156, 'latin1');
  block.write(entry.linkPath.slice(0, 100), 157, 'latin1');
  block.write('ustar\x0000', 257, 'latin1');
  octal(329, 7, entry.deviceMajor);
  octal(337, 7, entry.deviceMinor);
  block.fill(0x20, 148, 156);
  let sum = 0;
  for (const byte of block) sum += byte;
  octal(148, 6, sum);
  block[154] = 0;
  return block;
}
