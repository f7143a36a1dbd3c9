import assert from 'node:assert/strict';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { GantryError } from '../lib/errors.ts';
import { FakeClock } from '../lib/fake-clock.ts';
import { silentLog } from '../lib/log.ts';
import { StoreThread, type Database } from '../lib/store/store-thread.ts';
import { Journal, JOURNAL_SCHEMA } from './journal.ts';

let store: StoreThread;
let db: Database;
before(async () => {
  store = new StoreThread();
  const path = join(await mkdtemp(join(tmpdir(), 'gantry-journal-')), 'journal.db');
  ({ db } = await store.open({ path, schema: JOURNAL_SCHEMA, durable: false }));
});
after(() => store.close());

test('entries come back whole, in order, by any part of their subject, and the numbering goes on after a restart', async () => {
  const clock = new FakeClock();
  const first = await Journal.open(db, clock, 'boot-1', silentLog);
  const pod = { podUid: 'u1', podNamespace: 'default', podName: 'web' };
  first.record({ subject: pod, what: 'pod.scheduled', message: 'accepted', why: 'applied by the user' });
  await clock.advance(20);
  first.record({
    subject: { ...pod, containerId: 'c1' },
    what: 'container.exited',
    message: 'exited with code 7',
    outcome: 'failed',
    durationMs: 1.5,
    data: { code: 7 },
  });
  first.record({ subject: { podUid: 'u2' }, what: 'pod.scheduled', message: 'another' });
  const ofPod = await first.query({ podNamespace: 'default', podName: 'web' });
  assert.deepEqual(
    ofPod.map((entry) => entry.what),
    ['pod.scheduled', 'container.exited'],
  );
  assert.deepEqual(ofPod[1], {
    seq: 2,
    wallMs: clock.wallMs(),
    bootId: 'boot-1',
    subject: { ...pod, containerId: 'c1' },
    what: 'container.exited',
    message: 'exited with code 7',
    outcome: 'failed',
    durationMs: 1.5,
    data: { code: 7 },
  });
  const second = await Journal.open(db, clock, 'boot-2', silentLog);
  second.record({ subject: pod, what: 'pod.deleted', message: 'gone' });
  assert.deepEqual(
    (await second.query({ podUid: 'u1' }, 2)).map((entry) => [entry.seq, entry.bootId]),
    [
      [2, 'boot-1'],
      [4, 'boot-2'],
    ],
  );
});

test('what happens while the disk is full can be read at once, and is written when there is room', async () => {
  const clock = new FakeClock();
  const disk = { full: true };
  const onFullDisk: Database = {
    ...db,
    write: async (...statements) => {
      if (disk.full) throw new GantryError('ResourceExhausted', 'the disk is full');
      await db.write(...statements);
    },
  };
  const journal = await Journal.open(onFullDisk, clock, 'boot-3', silentLog);
  journal.record({ subject: { podName: 'filler' }, what: 'pod.ended', message: 'first' });
  journal.record({ subject: { podName: 'other' }, what: 'pod.ended', message: 'not asked for' });
  journal.record({ subject: { podName: 'filler' }, what: 'pod.gone', message: 'second' });
  const told = async (from: Journal): Promise<string[]> =>
    (await from.query({ podName: 'filler' })).map(({ message }) => message);
  assert.deepEqual(await told(journal), ['first', 'second']);
  await clock.advance(5_000);
  assert.deepEqual(await told(journal), ['first', 'second']);
  disk.full = false;
  await clock.advance(5_000);
  assert.deepEqual(await told(await Journal.open(db, clock, 'boot-3', silentLog)), ['first', 'second']);
});
