import fc from 'fast-check';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isKind } from '../errors.ts';
import { FrameReader } from './frame-reader.ts';
import { dataHead, goAway, ping, rstStream, RST_STATUS, settings, windowUpdate } from './frames.ts';
import type { Frame } from './frames.ts';

function read(...chunks: Buffer[]): Frame[] {
  const reader = new FrameReader();
  return chunks.flatMap((chunk) => [...reader.read(chunk)]);
}

/** As text, and the data in one piece, however it was cut: a part that ends its frame is followed by a bar. */
function joined(frames: readonly Frame[]): unknown[] {
  let data = '';
  const all: unknown[] = [];
  for (const frame of frames) {
    if (frame.kind === 'data') {
      data += `${frame.payload.toString()}${frame.fin ? '|' : ''}`;
      continue;
    }
    all.push(data, 'block' in frame ? { ...frame, block: frame.block.toString() } : frame);
    data = '';
  }
  return all.filter((one) => one !== '');
}

const synStream = Buffer.from('800300010100000e0000000500000000000061626364', 'hex');
/** Whole frames; no two of data follow one another, so that their pieces can be told apart. */
const SOME = Buffer.concat([
  settings(1_000),
  synStream,
  dataHead(5, 11, true),
  Buffer.from('hello world'),
  ping(7),
  dataHead(5, 0, false),
  rstStream(5, RST_STATUS.cancel),
  windowUpdate(0, 9),
  // Of a type that nobody knows: skipped.
  Buffer.from('8003000b00000003ffffff', 'hex'),
  goAway(5, 0),
]);

test('frames are read as they were written', () => {
  assert.deepEqual(joined(read(SOME)), [
    { kind: 'settings', initialWindow: 1_000 },
    { kind: 'synStream', streamId: 5, fin: true, unidirectional: false, block: 'abcd' },
    'hello world|',
    { kind: 'ping', id: 7 },
    { kind: 'rstStream', streamId: 5, status: RST_STATUS.cancel },
    { kind: 'windowUpdate', streamId: 0, delta: 9 },
    { kind: 'goAway' },
  ]);
});

test('the pieces in which bytes come change nothing', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(SOME.length), { maxLength: 12 }), (cuts) => {
      const at = [0, ...cuts.sort((a, b) => a - b), SOME.length];
      const chunks = at.slice(1).map((end, index) => SOME.subarray(at[index], end));
      assert.deepEqual(joined(read(...chunks)), joined(read(SOME)));
    }),
  );
});

test('a long data frame is handed on as it comes, nothing of it is kept', () => {
  const reader = new FrameReader();
  const [first] = [...reader.read(Buffer.concat([dataHead(1, 1_000_000, true), Buffer.alloc(10)]))];
  assert.equal(first?.kind === 'data' && first.payload.length, 10);
  assert.equal(first?.kind === 'data' && first.fin, false);
  const parts = [...reader.read(Buffer.alloc(999_990))];
  assert.equal(parts.length, 1);
  assert.equal(parts[0]?.kind === 'data' && parts[0].fin, true);
});

const hostile: readonly [string, string][] = [
  ['a control frame of 16 MB', '80030001 00ffffff'],
  ['another version', '80020001 00000000'],
  ['data for stream 0', '00000000 00000001 61'],
  ['a SYN_STREAM without its ids', '80030001 00000004 00000001'],
  ['a SYN_REPLY of no bytes', '80030002 00000000'],
  ['a RST_STREAM without a status', '80030003 00000004 00000001'],
  ['SETTINGS that say more entries than there are', '80030004 00000004 ffffffff'],
  ['a PING of no bytes', '80030006 00000000'],
  ['a WINDOW_UPDATE without a delta', '80030009 00000004 00000001'],
  ['HTTP', Buffer.from('GET / HTTP/1.1\r\n\r\n').toString('hex').replace('47', 'c7')],
];
for (const [name, hex] of hostile) {
  test(`refused: ${name}`, () => {
    assert.throws(
      () => read(Buffer.from(hex.replaceAll(' ', ''), 'hex')),
      (error) => isKind(error, 'InvalidArgument'),
    );
  });
}

test('whatever comes, it is frames or refused', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 8 }), (chunks) => {
      try {
        read(...chunks.map((chunk) => Buffer.from(chunk)));
      } catch (error) {
        assert.ok(isKind(error, 'InvalidArgument'), String(error));
      }
    }),
  );
});
