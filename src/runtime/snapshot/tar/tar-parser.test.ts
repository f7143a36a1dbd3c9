import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { paxRecord, tarEnd, tarHeader, tarPadding } from './tar-writer.ts';
import { TarParser } from './tar-parser.ts';
import type { TarEntry } from './tar-entry.ts';

interface Read {
  readonly entry: TarEntry;
  readonly content: string;
}

function read(archive: Buffer, pieceBytes = archive.length): Read[] {
  const members: { entry: TarEntry; content: string; ended: boolean }[] = [];
  const parser = new TarParser({
    entry: (entry) => members.push({ entry, content: '', ended: false }),
    data: (piece) => {
      const last = members.at(-1);
      assert.ok(last !== undefined && !last.ended);
      last.content += piece.toString('latin1');
    },
    hole: (bytes) => {
      const last = members.at(-1);
      assert.ok(last !== undefined && !last.ended && bytes > 0);
      last.content += '\0'.repeat(bytes);
    },
    fileEnd: () => {
      const last = members.at(-1);
      assert.ok(last?.entry.type === 'file' && !last.ended);
      last.ended = true;
    },
  });
  for (let at = 0; at < archive.length; at += pieceBytes) parser.write(archive.subarray(at, at + pieceBytes));
  parser.finish();
  for (const member of members) assert.equal(member.ended, member.entry.type === 'file');
  return members.map(({ entry, content }) => ({ entry, content }));
}

function entry(given: Partial<TarEntry>): TarEntry {
  return {
    ...{ type: 'file', path: 'name', linkPath: '', mode: 0o644, uid: 0, gid: 0, size: 0 },
    ...{ mtime: { seconds: 1, nanoseconds: 0 }, deviceMajor: 0, deviceMinor: 0, xattrs: [] },
    ...given,
  };
}

function member(given: Partial<TarEntry>, content = ''): Buffer {
  const body = Buffer.from(content, 'latin1');
  return Buffer.concat([tarHeader(entry({ size: body.length, ...given })), body, tarPadding(body.length)]);
}

/** Puts the right checksum into a header that a test has changed. */
function sealed(block: Buffer): Buffer {
  block.fill(0x20, 148, 156);
  let sum = 0;
  for (const byte of block.subarray(0, 512)) sum += byte;
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}

const byteString = fc
  .array(fc.integer({ min: 1, max: 255 }), { minLength: 1, maxLength: 300 })
  .map((bytes) => String.fromCharCode(...bytes));

const anyEntry = fc
  .record({
    type: fc.constantFrom('file', 'link', 'symlink', 'character-device', 'block-device', 'directory', 'fifo'),
    path: byteString,
    linkPath: byteString,
    mode: fc.integer({ min: 0, max: 0o7777 }),
    uid: fc.integer({ min: 0, max: 0xffff_fffe }),
    gid: fc.integer({ min: 0, max: 0xffff_fffe }),
    mtime: fc
      .tuple(fc.integer({ min: -(2 ** 40), max: 2 ** 40 }), fc.integer({ min: 0, max: 999_999_999 }))
      .map(([seconds, nanoseconds]) => ({ seconds, nanoseconds })),
    major: fc.integer({ min: 0, max: 4095 }),
    minor: fc.integer({ min: 0, max: 0o7777777 }),
    content: fc.string({
      unit: fc.integer({ min: 0, max: 255 }).map((byte) => String.fromCharCode(byte)),
      maxLength: 1500,
    }),
    xattrs: fc.uniqueArray(fc.record({ name: fc.stringMatching(/^user\.[a-z]{1,9}$/), value: fc.uint8Array() }), {
      selector: (xattr) => xattr.name,
      maxLength: 3,
    }),
  })
  .map(({ content, major, minor, xattrs, linkPath, ...rest }) => {
    const type = rest.type;
    const path = type === 'file' && rest.path.endsWith('/') ? `${rest.path}x` : rest.path;
    const body = type === 'file' ? content : '';
    const device = type.endsWith('device');
    return {
      entry: entry({
        ...rest,
        ...{ type, path, size: body.length, linkPath: type === 'link' || type === 'symlink' ? linkPath : '' },
        ...{ deviceMajor: device ? major : 0, deviceMinor: device ? minor : 0 },
        xattrs: xattrs.map(({ name, value }) => ({ name, value: Buffer.from(value) })),
      }),
      content: body,
    };
  });

test('what the writer writes, the reader reads, however the stream is cut', () => {
  fc.assert(
    fc.property(fc.array(anyEntry, { maxLength: 5 }), fc.integer({ min: 1, max: 2000 }), (members, pieceBytes) => {
      const archive = Buffer.concat([...members.map((m) => member(m.entry, m.content)), tarEnd()]);
      assert.deepEqual(read(archive, pieceBytes), members);
    }),
    { numRuns: 60 },
  );
});

test('any bytes are read or refused, never looped over or crashed on', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 3000 }), (bytes) => {
      try {
        read(Buffer.from(bytes));
      } catch (error) {
        assert.match(String(error), /tar: /);
      }
    }),
  );
});

test('a changed byte of a header is found by the checksum', () => {
  const archive = member({ path: 'a' });
  archive[0] = 0x62;
  assert.throws(() => read(archive), { kind: 'InvalidArgument', message: /wrong checksum/ });
});

test('GNU long names and long links', () => {
  const long = `${'d/'.repeat(120)}file`;
  const meta = (flag: string, text: string): Buffer => {
    const block = tarHeader(entry({ path: '././@LongLink', size: text.length + 1 }));
    block.write(flag, 156);
    return Buffer.concat([sealed(block), Buffer.from(`${text}\0`), tarPadding(text.length + 1)]);
  };
  const archive = Buffer.concat([
    meta('K', `${long}-target`),
    meta('L', long),
    member({ type: 'symlink', linkPath: 'cut' }),
  ]);
  const [only] = read(archive);
  assert.equal(only?.entry.path, long);
  assert.equal(only.entry.linkPath, `${long}-target`);
});

test('the prefix field of ustar, and not that of GNU', () => {
  const block = tarHeader(entry({ path: 'name' }));
  block.write('some/prefix', 345);
  assert.equal(read(sealed(Buffer.from(block)))[0]?.entry.path, 'some/prefix/name');
  block.write('ustar  \0', 257);
  assert.equal(read(sealed(block))[0]?.entry.path, 'name');
});

test('base-256 sizes, ids and dates before 1970', () => {
  const block = tarHeader(entry({ type: 'directory', path: 'd/' }));
  block.writeBigUInt64BE(0xffff_ffff_ffff_ff9cn, 140);
  block.fill(0xff, 136, 140);
  block.writeUInt32BE(0x8000_0000, 108);
  block.writeUInt32BE(4_000_000_000, 112);
  const [only] = read(sealed(block));
  assert.equal(only?.entry.mtime.seconds, -100);
  assert.equal(only.entry.uid, 4_000_000_000);
});

test('a huge declared size in base-256 is no crash', () => {
  const block = tarHeader(entry({}));
  block.fill(0x7f, 125, 136);
  block[124] = 0x80;
  assert.throws(() => read(sealed(block)), { kind: 'InvalidArgument', message: /out of range/ });
});

test('binary pax values keep every byte', () => {
  const value = Buffer.from([0, 0xff, 0x0a, 0x3d, 0xc3, 0x28, 0x80]);
  const archive = member({ xattrs: [{ name: 'security.capability', value }] });
  assert.deepEqual(read(archive)[0]?.entry.xattrs, [{ name: 'security.capability', value }]);
});

test('a global pax header says nothing about members', () => {
  const body = paxRecord('path', Buffer.from('evil'));
  const block = tarHeader(entry({ path: 'g', size: body.length }));
  block.write('g', 156);
  const archive = Buffer.concat([sealed(block), body, tarPadding(body.length), member({ path: 'good' })]);
  assert.equal(read(archive)[0]?.entry.path, 'good');
});

test('malformed pax headers are refused', () => {
  const pax = (body: string): Buffer => {
    const block = tarHeader(entry({ path: 'x', size: body.length }));
    block.write('x', 156);
    return Buffer.concat([sealed(block), Buffer.from(body, 'latin1'), tarPadding(body.length), member({})]);
  };
  const cases = [
    '99 path=a\n',
    '0 path=a\n',
    'x path=a\n',
    '10 path=aa',
    '8 patha\n',
    '11 path=\0aa\n',
    '-9 path=a\n',
    '9 size=x\n',
  ];
  for (const body of cases) {
    assert.throws(() => read(pax(body)), { kind: 'InvalidArgument' }, JSON.stringify(body));
  }
});

test('what is not understood is refused by name', () => {
  for (const [flag, message] of [
    ['M', /type "M"/],
    ['V', /type "V"/],
    ['D', /type "D"/],
    ['Z', /type "Z"/],
  ] as const) {
    const block = tarHeader(entry({}));
    block.write(flag, 156);
    assert.throws(() => read(sealed(block)), { kind: 'InvalidArgument', message });
  }
});

test('a header of many megabytes is refused before it is read', () => {
  const block = tarHeader(entry({ path: 'x', size: 100 << 20 }));
  block.write('x', 156);
  assert.throws(() => read(sealed(block)), { kind: 'InvalidArgument', message: /too long/ });
});

test('an archive that is cut off inside a member is DataLoss; one without its end is fine', () => {
  const whole = member({ path: 'a' }, 'content');
  assert.equal(read(whole).length, 1);
  for (const length of [100, 512, 515]) {
    assert.throws(() => read(whole.subarray(0, length)), { kind: 'DataLoss' }, String(length));
  }
});

test('a directory by its trailing slash, and what follows the end is ignored', () => {
  const block = tarHeader(entry({ path: 'old/' }));
  const archive = Buffer.concat([block, tarEnd(), Buffer.from('anything at all')]);
  assert.deepEqual(
    read(archive).map((m) => m.entry.type),
    ['directory'],
  );
});

test('a size that a link or directory claims is skipped, not taken for content', () => {
  const block = tarHeader(entry({ type: 'link', path: 'l', linkPath: 'name' }));
  block.write('00000001000\0', 124);
  const archive = Buffer.concat([sealed(block), member({ path: 'next' })]);
  assert.deepEqual(
    read(archive).map((m) => m.entry.path),
    ['l', 'next'],
  );
});
