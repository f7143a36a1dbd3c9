import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Op } from '../../lib/abort.ts';
import { canceled } from '../../lib/errors.ts';
import { silentLog } from '../../lib/log.ts';
import { SharedWork } from './shared-work.ts';

function opOf(controller = new AbortController()): Op {
  return { signal: controller.signal, log: silentLog };
}

const ignore = (): void => undefined;

describe('SharedWork', () => {
  it('runs once for all who ask at the same time, and tells each how it goes', async () => {
    const work = new SharedWork<number, string>();
    const gate = Promise.withResolvers<number>();
    const heard: string[] = [];
    let starts = 0;
    const ask = (name: string): ReturnType<typeof work.run> =>
      work.run(
        opOf(),
        'key',
        (event) => heard.push(`${name} ${event}`),
        async (_op, emit) => {
          starts++;
          emit('begun');
          return await gate.promise;
        },
      );
    const first = ask('a');
    await new Promise((resolve) => setImmediate(resolve));
    const second = ask('b');
    gate.resolve(7);
    assert.deepEqual(await Promise.all([first, second]), [
      { joined: false, outcome: { status: 'fulfilled', value: 7 } },
      { joined: true, outcome: { status: 'fulfilled', value: 7 } },
    ]);
    assert.deepEqual([starts, heard, work.size], [1, ['a begun', 'b begun'], 0]);
  });

  it('goes on while anyone waits, and is aborted when nobody does', async () => {
    const work = new SharedWork<string, never>();
    const [one, two] = [new AbortController(), new AbortController()];
    let inner: AbortSignal | undefined;
    const ended = Promise.withResolvers<string>();
    const start = async (op: Op): Promise<string> => {
      inner = op.signal;
      return await ended.promise;
    };
    const first = work.run(opOf(one), 'key', ignore, start);
    const second = work.run(opOf(two), 'key', ignore, start);
    await new Promise((resolve) => setImmediate(resolve));
    one.abort(canceled('first'));
    await assert.rejects(first, /first/);
    assert.equal(inner?.aborted, false);
    two.abort(canceled('second'));
    await assert.rejects(second, /second/);
    assert.equal(inner.aborted, true);
    // The next one waits until the aborted work has really ended.
    let restarted = false;
    const third = work.run(opOf(), 'key', ignore, () => {
      restarted = true;
      return Promise.resolve('new');
    });
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(restarted, false);
    ended.resolve('old');
    assert.deepEqual((await third).outcome, { status: 'fulfilled', value: 'new' });
  });

  it('gives a failure to all, as an outcome', async () => {
    const work = new SharedWork<never, never>();
    const fail = (): Promise<never> => Promise.reject(new Error('no'));
    const both = await Promise.all([work.run(opOf(), 'k', ignore, fail), work.run(opOf(), 'k', ignore, fail)]);
    assert.deepEqual(
      both.map(({ joined, outcome }) => [joined, outcome.status]),
      [
        [false, 'rejected'],
        [true, 'rejected'],
      ],
    );
  });
});
