import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GantryError, isKind } from '../../lib/errors.ts';
import { FakeClock } from '../../lib/fake-clock.ts';
import { silentLog } from '../../lib/log.ts';
import type { Database, Statement } from '../../lib/store/store-thread.ts';
import { RecordStore, type RecordCodec } from './record-store.ts';

interface Meta {
  readonly id: string;
}

interface Status {
  readonly log: readonly string[];
}

const CODEC: RecordCodec<Meta, Status> = {
  table: 'containers',
  noun: 'container',
  encodeMeta: () => ({ config: new Uint8Array(), facts: {} }),
  decode: (id, _config, _facts, status) => {
    if (typeof status !== 'object') throw new Error('torn');
    return { meta: { id }, status: status as Status };
  },
};

class Disk implements Database {
  readonly statuses = new Map<string, string>();
  rows: { id: string; config: Uint8Array; facts: string; status: string }[] = [];
  readonly setAside: unknown[] = [];
  full = false;
  gate: Promise<unknown> = Promise.resolve();

  async write(...statements: Statement[]): Promise<void> {
    await this.gate;
    if (this.full) throw new GantryError('ResourceExhausted', 'disk full');
    for (const { sql, params = [] } of statements) {
      if (sql.includes('damaged')) this.setAside.push(params[3]);
      else if (sql.startsWith('INSERT')) this.statuses.set(String(params[0]), String(params[3]));
      else if (sql.startsWith('UPDATE')) this.statuses.set(String(params[1]), String(params[0]));
      else if (sql.startsWith('DELETE')) this.statuses.delete(String(params[0]));
    }
  }

  read<Row>(): Promise<Row[]> {
    return Promise.resolve(this.rows as Row[]);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

const add =
  (word: string) =>
  (status: Status): Status => ({ log: [...status.log, word] });

async function setUp(disk = new Disk()): Promise<{ disk: Disk; clock: FakeClock; store: RecordStore<Meta, Status> }> {
  const clock = new FakeClock();
  const store = await RecordStore.open({ db: disk, clock, log: silentLog }, CODEC);
  return { disk, clock, store };
}

test('nobody sees what is not on disk', async () => {
  const { disk, store } = await setUp();
  await store.insert({ id: 'a' }, { log: [] });
  disk.full = true;
  await assert.rejects(store.update('a', add('x')), (error) => isKind(error, 'ResourceExhausted'));
  assert.deepEqual(store.must('a').status.log, []);
  disk.full = false;
  await store.update('a', add('x'));
  assert.equal(disk.statuses.get('a'), '{"log":["x"]}');
});

test('what must be seen at once is seen at once, and kept at until it is on disk', async () => {
  const { disk, clock, store } = await setUp();
  await store.insert({ id: 'a' }, { log: [] });
  disk.full = true;
  store.publishFirst('a', add('exit'));
  assert.deepEqual(store.must('a').status.log, ['exit']);
  await clock.advance(5_000);
  assert.deepEqual(store.unpersisted, ['a']);
  disk.full = false;
  await clock.advance(1_000);
  assert.equal(disk.statuses.get('a'), '{"log":["exit"]}');
  assert.deepEqual(store.unpersisted, []);
});

test('an exit that comes while another change is being written is not lost, in memory or on disk', async () => {
  const { disk, store } = await setUp();
  await store.insert({ id: 'a' }, { log: [] });
  const { promise, resolve } = Promise.withResolvers<undefined>();
  disk.gate = promise;
  const slow = store.update('a', add('slow'));
  store.publishFirst('a', add('exit'));
  assert.deepEqual(store.must('a').status.log, ['exit']);
  resolve(undefined);
  await slow;
  assert.deepEqual(store.must('a').status.log, ['exit', 'slow']);
  assert.equal(disk.statuses.get('a'), '{"log":["exit","slow"]}');
});

test('a waiter is woken by each change until it is content, also by the end of the object', async () => {
  const { store } = await setUp();
  await store.insert({ id: 'a' }, { log: [] });
  const op = { signal: new AbortController().signal, log: silentLog };
  const two = store.waitFor(op, 'a', (status) => (status?.log.length ?? 0) >= 2);
  const gone = store.waitFor(op, 'a', (status) => status === undefined);
  store.publishFirst('a', add('1'));
  store.publishFirst('a', add('2'));
  assert.deepEqual((await two)?.log, ['1', '2']);
  await store.remove('a');
  assert.equal(await gone, undefined);
});

test('ids can be shortened as long as they are unambiguous', async () => {
  const { store } = await setUp();
  await store.insert({ id: 'abc1' }, { log: [] });
  await store.insert({ id: 'abd2' }, { log: [] });
  assert.equal(store.resolve('abc'), 'abc1');
  assert.equal(store.resolve('x'), undefined);
  assert.equal(store.resolve(''), undefined);
  assert.throws(
    () => store.resolve('ab'),
    (error) => isKind(error, 'InvalidArgument'),
  );
});

test('one damaged record is set aside by name, the others are there', async () => {
  const disk = new Disk();
  const row = { config: new Uint8Array(), facts: '{}' };
  disk.rows = [
    { id: 'good', ...row, status: '{"log":["kept"]}' },
    { id: 'torn', ...row, status: '{"log":' },
    { id: 'odd', ...row, status: '7' },
  ];
  const { store } = await setUp(disk);
  assert.deepEqual(
    store.list().map(({ meta }) => meta.id),
    ['good'],
  );
  assert.deepEqual(disk.setAside, ['torn', 'odd']);
  assert.deepEqual(
    store.damaged.map(({ id }) => id),
    ['torn', 'odd'],
  );
});
