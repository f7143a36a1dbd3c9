import assert from 'node:assert/strict';
import { PassThrough, Writable } from 'node:stream';
import { test } from 'node:test';
import { FakeClock } from '../../lib/fake-clock.ts';
import { OutputPump } from './output-pump.ts';

test('a slow client gets what was read ahead, and then the end, when something holds the stream open', async () => {
  const clock = new FakeClock();
  const reader = new PassThrough();
  const pieces = ['first', 'second', 'third'];
  const taken: string[] = [];
  const waiting: (() => void)[] = [];
  const target = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      taken.push(String(chunk));
      waiting.push(done);
    },
  });
  const pump = new OutputPump({ reader, unread: () => reader.readableLength }, target);
  for (const piece of pieces) {
    reader.write(piece);
    await new Promise(setImmediate);
  }
  const drained = pump.drained(clock);
  await clock.advance(1_000);
  for (let turn = 0; turn < 10; turn++) {
    waiting.shift()?.();
    await new Promise(setImmediate);
  }
  await drained;
  assert.equal(taken.join(), pieces.join());
});
