import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { raceSignal, type Op } from '../../lib/abort.ts';
import { canceled, deadlineExceeded } from '../../lib/errors.ts';
import { FakeClock } from '../../lib/fake-clock.ts';
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

  it('goes on for a while behind a deadline that has passed, and ends with it unless somebody has asked again', async () => {
    const clock = new FakeClock();
    const work = new SharedWork<string, never>({ clock, unawaitedMs: 1_000 });
    const inner: AbortSignal[] = [];
    const end = Promise.withResolvers<string>();
    const ask = (controller: AbortController): Promise<unknown> =>
      work.run(opOf(controller), 'key', ignore, (op) => {
        inner.push(op.signal);
        return raceSignal(end.promise, op.signal);
      });
    const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
    const late = async (): Promise<void> => {
      const controller = new AbortController();
      const asked = ask(controller);
      await turn();
      controller.abort(deadlineExceeded('late'));
      await assert.rejects(asked, /late/);
    };
    await late();
    await clock.advance(999);
    await late();
    await clock.advance(999);
    assert.deepEqual(
      [inner.length, inner[0]?.aborted],
      [1, false],
      'the second caller has joined and begun the while anew',
    );
    await clock.advance(1);
    await turn();
    assert.deepEqual([inner[0]?.aborted, work.size, clock.pendingTimers], [true, 0, 0]);

    await late();
    work.dropUnawaited((key) => key === 'another');
    assert.equal(inner[1]?.aborted, false);
    work.dropUnawaited((key) => key === 'key');
    assert.equal(inner[1].aborted, true);

    const left = new AbortController();
    const leaves = ask(left);
    await turn();
    left.abort(canceled('gone'));
    await assert.rejects(leaves, /gone/);
    assert.equal(inner.at(-1)?.aborted, true, 'who leaves without a deadline wants it no more');

    await late();
    end.resolve('done');
    await turn();
    assert.deepEqual([work.size, clock.pendingTimers], [0, 0]);
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
