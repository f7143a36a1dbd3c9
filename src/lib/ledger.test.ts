import assert from 'node:assert/strict';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import type { Op } from './abort.ts';
import { FakeClock } from './fake-clock.ts';
import { Ledger, LEDGER_SCHEMA, type LedgerEntry, type Releasers } from './ledger.ts';
import { silentLog } from './log.ts';
import { StoreThread, type Database } from './store/store-thread.ts';

const op: Op = { signal: new AbortController().signal, log: silentLog };
let store: StoreThread;
let directory: string;
let count = 0;

before(async () => {
  store = new StoreThread();
  directory = await mkdtemp(join(tmpdir(), 'gantry-ledger-'));
});
after(() => store.close());

async function databases(): Promise<[Database, Database]> {
  const open = async (name: string): Promise<Database> =>
    (await store.open({ path: join(directory, name), schema: LEDGER_SCHEMA, durable: false })).db;
  count++;
  return [await open(`d${count}`), await open(`v${count}`)];
}

test('undo is the exact reverse of acquisition, also for the process that comes after', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(fc.record({ key: fc.string({ minLength: 1 }), volatile: fc.boolean() }), {
        selector: (item) => item.key,
        maxLength: 8,
      }),
      async (items) => {
        const [durable, volatile] = await databases();
        const first = await Ledger.open(new FakeClock(), durable, volatile);
        for (const item of items) await first.acquire('o', { kind: 'thing', ...item }, () => Promise.resolve());
        const second = await Ledger.open(new FakeClock(), durable, volatile);
        const released: string[] = [];
        const failures = await second.release(op, 'o', {
          thing: (_op: Op, entry: LedgerEntry) => {
            released.push(entry.key);
            return Promise.resolve();
          },
        });
        assert.deepEqual(failures, []);
        assert.deepEqual(released, items.map((item) => item.key).reverse());
        assert.deepEqual((await Ledger.open(new FakeClock(), durable, volatile)).owners(), []);
      },
    ),
    { numRuns: 30 },
  );
});

test('an acquisition that fails leaves its intent, so that what half worked is released too', async () => {
  const [durable, volatile] = await databases();
  const ledger = await Ledger.open(new FakeClock(), durable, volatile);
  await assert.rejects(
    ledger.acquire('o', { kind: 'mount', key: '/m', volatile: true }, () => Promise.reject(new Error('no'))),
    /no/,
  );
  assert.deepEqual(
    ledger.entriesOf('o').map(({ key, state }) => ({ key, state })),
    [{ key: '/m', state: 'intended' }],
  );
});

test('what cannot be released stays, is told, and stops nothing else', async () => {
  const [durable, volatile] = await databases();
  const ledger = await Ledger.open(new FakeClock(), durable, volatile);
  for (const key of ['a', 'b', 'c'])
    await ledger.acquire('o', { kind: 'k', key, volatile: false }, () => Promise.resolve());
  let stuck = true;
  const releasers: Releasers = {
    k: (_op, entry) => (entry.key === 'b' && stuck ? Promise.reject(new Error('busy')) : Promise.resolve()),
  };
  const failures = await ledger.release(op, 'o', releasers);
  assert.deepEqual(
    failures.map((failure) => failure.entry.key),
    ['b'],
  );
  assert.deepEqual(
    ledger.entriesOf('o').map((entry) => entry.key),
    ['b'],
  );
  stuck = false;
  assert.deepEqual(await ledger.release(op, 'o', releasers), []);
  assert.deepEqual(ledger.owners(), []);
});

test('a kind that nobody can release is kept, not forgotten', async () => {
  const [durable, volatile] = await databases();
  const ledger = await Ledger.open(new FakeClock(), durable, volatile);
  await ledger.intend('o', { kind: 'strange', key: 'x', volatile: false });
  assert.equal((await ledger.release(op, 'o', {})).length, 1);
  assert.equal(ledger.entriesOf('o').length, 1);
});
