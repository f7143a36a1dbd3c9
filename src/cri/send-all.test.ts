import assert from 'node:assert/strict';
import { Writable } from 'node:stream';
import { test } from 'node:test';
import type { Op } from '../lib/abort.ts';
import { canceled, unavailable } from '../lib/errors.ts';
import { silentLog } from '../lib/log.ts';
import { sendAll } from './send-all.ts';

/** A reader that takes a message only when it is told to. */
class SlowReader extends Writable {
  readonly taken: string[] = [];
  #take: (() => void) | undefined;

  constructor() {
    super({ objectMode: true, highWaterMark: 2 });
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#take = () => {
      this.taken.push(chunk.toString());
      done();
    };
  }

  waiting(): number {
    return this.writableLength;
  }

  async take(): Promise<void> {
    const take = this.#take;
    this.#take = undefined;
    take?.();
    await settled();
  }
}

async function settled(): Promise<void> {
  await new Promise((next) => setImmediate(next));
}

function opOf(signal = new AbortController().signal): Op {
  return { signal, log: silentLog };
}

const encode = (text: string): Buffer => Buffer.from(text);

test('the source is asked only for what the stream takes', async () => {
  let asked = 0;
  async function* source(): AsyncGenerator<string> {
    for (; asked < 10; asked++) yield await Promise.resolve(String(asked));
  }
  const reader = new SlowReader();
  const sent = sendAll(opOf(), source(), reader, encode);
  await settled();
  assert.equal(asked, 1);
  assert.equal(reader.waiting(), 2);
  await reader.take();
  assert.equal(asked, 1, 'asked on before the stream had drained');
  for (let n = 0; n < 12; n++) {
    await reader.take();
    assert.ok(reader.waiting() <= 2);
  }
  await sent;
  assert.deepEqual(reader.taken, ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
});

test('what the source throws is thrown, after what it gave before', async () => {
  async function* source(): AsyncGenerator<string> {
    yield await Promise.resolve('a');
    throw unavailable('no more');
  }
  const reader = new SlowReader();
  await assert.rejects(sendAll(opOf(), source(), reader, encode), /no more/);
  await reader.take();
  assert.deepEqual(reader.taken, ['a']);
});

test('a reader that is gone ends a source in whatever wait it is, and a stream that never drains', async () => {
  for (const messages of [[], ['a', 'b', 'c']]) {
    let returned = 0;
    const source: AsyncIterableIterator<string> = {
      next: () => {
        const value = messages.shift();
        return value === undefined ? new Promise(() => undefined) : Promise.resolve({ done: false, value });
      },
      return: () => {
        returned++;
        return Promise.resolve({ done: true, value: undefined });
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    };
    const controller = new AbortController();
    const reader = new SlowReader();
    const sent = sendAll(opOf(controller.signal), source, reader, encode);
    await settled();
    controller.abort(canceled('gone'));
    await assert.rejects(sent, /gone/);
    assert.equal(returned, 1);
    assert.equal(reader.listenerCount('drain'), 0);
  }
});
