import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Op } from '../../lib/abort.ts';
import { canceled, isKind } from '../../lib/errors.ts';
import { silentLog } from '../../lib/log.ts';
import { EventLog, type News } from './event-log.ts';

const SEED = 20_261_121;

function opOf(signal = new AbortController().signal): Op {
  return { signal, log: silentLog };
}

async function take<T>(news: AsyncGenerator<News<T>, void>, count: number): Promise<News<T>[]> {
  const taken: News<T>[] = [];
  while (taken.length < count) {
    const { done, value } = await news.next();
    if (done === true) break;
    taken.push(value);
  }
  return taken;
}

test('a reader gets what comes after it asked, in order, whenever it begins to read', async () => {
  const log = new EventLog<string>(10);
  log.append('before');
  const news = log.follow(opOf());
  log.append('a');
  log.append('b');
  assert.deepEqual(await take(news, 2), [
    { kind: 'event', seq: 2, value: 'a' },
    { kind: 'event', seq: 3, value: 'b' },
  ]);
  const next = news.next();
  assert.equal(log.waiting, 1);
  log.append('c');
  assert.deepEqual((await next).value, { kind: 'event', seq: 4, value: 'c' });
  assert.equal(log.waiting, 0);
});

test('whoever is too slow is told how many it has lost, and goes on with what there is', async () => {
  const log = new EventLog<number>(3);
  const news = log.follow(opOf());
  for (let n = 1; n <= 10; n++) log.append(n);
  assert.deepEqual(await take(news, 4), [
    { kind: 'lost', count: 7, nextSeq: 8 },
    { kind: 'event', seq: 8, value: 8 },
    { kind: 'event', seq: 9, value: 9 },
    { kind: 'event', seq: 10, value: 10 },
  ]);
});

test('a reader that was cut off goes on where it was, or is told what it has lost', async () => {
  const log = new EventLog<number>(3);
  for (let n = 1; n <= 5; n++) log.append(n);
  assert.deepEqual(await take(log.follow(opOf(), 3), 2), [
    { kind: 'event', seq: 4, value: 4 },
    { kind: 'event', seq: 5, value: 5 },
  ]);
  assert.deepEqual(await take(log.follow(opOf(), 0), 2), [
    { kind: 'lost', count: 2, nextSeq: 3 },
    { kind: 'event', seq: 3, value: 3 },
  ]);
  for (const after of [6, -1, 1.5, Number.NaN]) {
    assert.throws(
      () => log.follow(opOf(), after),
      (error) => isKind(error, 'InvalidArgument'),
    );
  }
});

test('a reader that goes away is forgotten', async () => {
  const log = new EventLog<number>(3);
  const controller = new AbortController();
  const next = log.follow(opOf(controller.signal)).next();
  assert.equal(log.waiting, 1);
  controller.abort(canceled('gone'));
  await assert.rejects(next, /gone/);
  assert.equal(log.waiting, 0);
});

test('when the log is closed its readers get the rest, then the end', async () => {
  const log = new EventLog<number>(3);
  const waiting = log.follow(opOf());
  const end = waiting.next();
  log.close();
  assert.equal((await end).done, true);
  const late = new EventLog<number>(3);
  const news = late.follow(opOf());
  late.append(1);
  late.close();
  assert.deepEqual(await take(news, 5), [{ kind: 'event', seq: 1, value: 1 }]);
});

type Step = { readonly kind: 'append'; readonly count: number } | { readonly kind: 'read'; readonly reader: number };

test('however reading and writing go on, each reader can account for every event', async () => {
  const step: fc.Arbitrary<Step> = fc.oneof(
    fc.record({ kind: fc.constant('append' as const), count: fc.integer({ min: 1, max: 12 }) }),
    fc.record({ kind: fc.constant('read' as const), reader: fc.nat(2) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 8 }), fc.array(step, { maxLength: 60 }), async (capacity, steps) => {
      const log = new EventLog<number>(capacity);
      const readers = [0, 1, 2].map(() => ({ news: log.follow(opOf()), told: [] as News<number>[], at: 0 }));
      const read = async (reader: (typeof readers)[number]): Promise<void> => {
        const { value } = await reader.news.next();
        assert.ok(value !== undefined);
        reader.told.push(value);
        if (value.kind === 'event') {
          assert.equal(value.seq, reader.at + 1);
          assert.equal(value.value, value.seq);
          reader.at = value.seq;
        } else {
          assert.ok(value.count > 0);
          assert.equal(value.nextSeq, reader.at + value.count + 1);
          assert.ok(log.lastSeq - reader.at > capacity, 'lost although it was not too far behind');
          reader.at += value.count;
        }
      };
      for (const one of steps) {
        if (one.kind === 'append') {
          for (let n = 0; n < one.count; n++) log.append(log.lastSeq + 1);
        } else {
          const reader = readers[one.reader];
          if (reader !== undefined && reader.at < log.lastSeq) await read(reader);
        }
      }
      for (const reader of readers) while (reader.at < log.lastSeq) await read(reader);
      assert.deepEqual(
        readers.map(({ at }) => at),
        readers.map(() => log.lastSeq),
      );
    }),
    { seed: SEED, numRuns: 300 },
  );
});
