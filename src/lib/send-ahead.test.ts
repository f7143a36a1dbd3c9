import assert from 'node:assert/strict';
import { Writable } from 'node:stream';
import { test } from 'node:test';
import { SendAhead } from './send-ahead.ts';

type Sent = (error?: Error) => void;

/** A Writable whose pieces are on their way until `sent` says otherwise. */
function writer(mostBytes: number): { readonly stream: Writable; readonly underWay: Sent[] } {
  const ahead = new SendAhead(mostBytes);
  const underWay: Sent[] = [];
  const stream = new Writable({
    highWaterMark: 1,
    write: (chunk: Buffer, _encoding, done) => ahead.take(chunk.byteLength, (sent) => underWay.push(sent), done),
  });
  return { stream, underWay };
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('pieces are sent one behind the other, as many as there is room for', async () => {
  const { stream, underWay } = writer(25);
  for (let i = 0; i < 6; i++) stream.write(Buffer.alloc(10));
  await settled();
  assert.equal(underWay.length, 3, 'the third is the one that is too much, and holds up the fourth');
  underWay.shift()!();
  await settled();
  assert.equal(underWay.length, 3);
  for (let sent = underWay.shift(); sent !== undefined; sent = underWay.shift()) {
    sent();
    await settled();
  }
  assert.equal(stream.writableLength, 0);
});

test('a piece that is larger than all the room goes alone', async () => {
  const { stream, underWay } = writer(25);
  stream.write(Buffer.alloc(100));
  stream.write(Buffer.alloc(1));
  await settled();
  assert.equal(underWay.length, 1);
  underWay.shift()!();
  await settled();
  assert.equal(underWay.length, 1);
});

test('who waits hears that it failed', async () => {
  const { stream, underWay } = writer(25);
  const failed = new Promise<unknown>((resolve) => stream.once('error', resolve));
  stream.write(Buffer.alloc(20));
  stream.write(Buffer.alloc(20));
  await settled();
  underWay.shift()!(new Error('broken off'));
  assert.match(String(await failed), /broken off/);
});
