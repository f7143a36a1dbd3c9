import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import fc from 'fast-check';
import { TarParser } from './tar-parser.ts';
import type { TarEntry } from './tar-entry.ts';
import { paxRecord, tarEnd, tarHeader, tarPadding } from './tar-writer.ts';

interface Read {
  entry: TarEntry | undefined;
  content: Buffer[];
  holes: number;
  ended: boolean;
}

function read(archive: Buffer, pieceBytes = archive.length): Read {
  const file: Read = { entry: undefined, content: [], holes: 0, ended: false };
  const parser = new TarParser({
    entry: (entry) => (file.entry ??= entry),
    data: (piece) => file.content.push(Buffer.from(piece)),
    hole: (bytes) => {
      file.holes += bytes;
      // A map may speak of any size: only those that were made here are laid out.
      if (bytes < 1 << 24) file.content.push(Buffer.alloc(bytes));
    },
    fileEnd: () => (file.ended = true),
  });
  for (let at = 0; at < archive.length; at += pieceBytes) parser.write(archive.subarray(at, at + pieceBytes));
  parser.finish();
  return file;
}

/** As GNU tar makes them of a file with `runs` runs of data in it, the last one short of a hole at the end. */
async function made(runs: number, ...format: readonly string[]): Promise<{ archive: Buffer; content: Buffer }> {
  const dir = await mkdtemp(join(tmpdir(), 'gantry-sparse-'));
  try {
    const path = join(dir, 'a.sparse');
    {
      await using file = await open(path, 'w');
      for (let n = 0; n < runs; n++)
        await file.write(Buffer.alloc(4_096 + n, 65 + (n % 26)), 0, null, n * 65_536 + 8_192);
      await file.truncate(runs * 65_536 + 100_000);
    }
    const archive = execFileSync('tar', ['--sparse', ...format, '-C', dir, '-cf', '-', 'a.sparse'], {
      maxBuffer: 1 << 28,
    });
    return { archive, content: await readFile(path) };
  } finally {
    await rm(dir, { recursive: true });
  }
}

for (const [what, ...format] of [
  ['its own', '--format=gnu'],
  ['0.0', '--format=posix', '--sparse-version=0.0'],
  ['0.1', '--format=posix', '--sparse-version=0.1'],
  ['1.0', '--format=posix', '--sparse-version=1.0'],
] as const) {
  test(`what GNU tar writes of sparse files in ${what} way is read, however the stream is cut`, async () => {
    // None, what fits into a header, and more than fits into its first continuation.
    for (const runs of [0, 1, 4, 5, 60]) {
      const { archive, content } = await made(runs, ...format);
      for (const pieceBytes of [archive.length, 512, 777, 100_000]) {
        const file = read(archive, pieceBytes);
        assert.equal(file.entry?.path, 'a.sparse');
        assert.equal(file.entry.size, content.length);
        assert.ok((file.entry.storedBytes ?? content.length) < content.length);
        assert.ok(file.holes > 0 && file.ended);
        assert.ok(Buffer.concat(file.content).equals(content), `${String(runs)} runs`);
      }
    }
  });
}

const PLAIN = { linkPath: '', mode: 0o644, uid: 0, gid: 0, deviceMajor: 0, deviceMinor: 0, xattrs: [] };
const header = (path: string, size: number, flag = '0'): Buffer => {
  const block = tarHeader({ ...PLAIN, type: 'file', path, size, mtime: { seconds: 1, nanoseconds: 0 } });
  block.write(flag, 156);
  return sealed(block);
};
function sealed(block: Buffer): Buffer {
  block.fill(0x20, 148, 156);
  let sum = 0;
  for (const byte of block.subarray(0, 512)) sum += byte;
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}
const withPax = (records: Readonly<Record<string, string>>, body: Buffer): Buffer => {
  const pax = Buffer.concat(
    Object.entries(records).map(([key, value]) => paxRecord(`GNU.sparse.${key}`, Buffer.from(value))),
  );
  return Buffer.concat([
    ...[header('x', pax.length, 'x'), pax, tarPadding(pax.length)],
    ...[header('GNUSparseFile.1/f', body.length), body, tarPadding(body.length), tarEnd()],
  ]);
};
const v01 = (size: string, map: string, body = 'abcd'): Buffer => withPax({ size, map, name: 'f' }, Buffer.from(body));
const v10 = (realsize: string, map: string, body = 'abcd'): Buffer => {
  const block = Buffer.alloc(Math.max(512, Math.ceil(map.length / 512) * 512));
  block.write(map, 'latin1');
  return withPax({ major: '1', minor: '0', realsize, name: 'f' }, Buffer.concat([block, Buffer.from(body)]));
};
const gnu = (extents: readonly (readonly [number, number])[], realSize: number, body = 'abcd'): Buffer => {
  const block = header('f', body.length, 'S');
  for (const [i, [offset, length]] of extents.entries()) {
    block.write(offset.toString(8).padStart(11, '0'), 386 + i * 24);
    block.write(length.toString(8).padStart(11, '0'), 398 + i * 24);
  }
  block.write(realSize.toString(8).padStart(11, '0'), 483);
  return Buffer.concat([sealed(block), Buffer.from(body), tarPadding(body.length), tarEnd()]);
};

test('maps that make sense by hand', () => {
  for (const archive of [
    v01('10', '2,2,6,2'),
    v10('10', '2\n2\n2\n6\n2\n'),
    gnu(
      [
        [2, 2],
        [6, 2],
      ],
      10,
    ),
  ]) {
    const file = read(archive);
    assert.equal(Buffer.concat(file.content).toString('latin1'), '\0\0ab\0\0cd\0\0');
    assert.equal(file.entry?.path, 'f');
  }
});

test('maps that write twice, backwards, beyond the end or not all are refused before a byte is written', () => {
  const hostile: readonly (readonly [string, Buffer])[] = [
    ['overlap', v01('10', '2,2,3,2')],
    ['backwards', v01('10', '6,2,2,2')],
    ['beyond the end', v01('10', '2,2,9,2')],
    ['end that overflows', v01('10', '2,2,9007199254740991,2')],
    ['odd', v01('10', '2,2,6')],
    ['too little', v01('10', '2,2')],
    ['too much', v01('20', '2,2,6,4')],
    ['no number', v01('10', '2,2,x,2')],
    ['negative', v01('10', '-2,2,6,2')],
    ['no size', withPax({ map: '2,2,6,2' }, Buffer.from('abcd'))],
    ['wrong count', withPax({ size: '10', numblocks: '3', map: '2,2,6,2' }, Buffer.from('abcd'))],
    ['pairs out of turn', withPax({ size: '10', numbytes: '4' }, Buffer.from('abcd'))],
    ['unknown version', withPax({ major: '2', minor: '0', realsize: '10' }, Buffer.from('abcd'))],
    ['1.0 overlap', v10('10', '2\n2\n2\n3\n2\n')],
    ['1.0 no map', withPax({ major: '1', minor: '0', realsize: '10' }, Buffer.from('abcd'))],
    ['1.0 map without end', v10('10', '9\n1\n1\n')],
    ['1.0 too many', v10('10', '99999999999\n')],
    ['1.0 endless number', v10('10', '1'.repeat(4_096))],
    [
      'GNU overlap',
      gnu(
        [
          [2, 2],
          [3, 2],
        ],
        10,
      ),
    ],
    [
      'GNU beyond the end',
      gnu(
        [
          [2, 2],
          [9, 2],
        ],
        10,
      ),
    ],
    ['GNU too little', gnu([[2, 2]], 10)],
  ];
  for (const [what, archive] of hostile) {
    const written: number[] = [];
    const parser = new TarParser({
      entry: () => written.push(0),
      data: (piece) => written.push(piece.length),
      hole: (bytes) => written.push(bytes),
      fileEnd: () => undefined,
    });
    assert.throws(() => parser.write(archive), { kind: 'InvalidArgument' }, what);
    assert.deepEqual(written, [], what);
  }
});

test('any map is laid out inside the file, or refused', () => {
  const number = fc.oneof(fc.integer({ min: 0, max: 12 }), fc.nat(), fc.constant(Number.MAX_SAFE_INTEGER));
  fc.assert(
    fc.property(fc.array(number, { maxLength: 8 }), number, (map, size) => {
      let file: Read;
      try {
        file = read(v01(String(size), map.join(',')));
      } catch (error) {
        assert.match(String(error), /tar: /);
        return;
      }
      assert.equal(file.holes + 4, size);
    }),
    { numRuns: 500 },
  );
});
