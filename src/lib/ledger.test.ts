import assert from 'node:assert/strict';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import type { Op } from './abort.ts';
import { FakeClock } from './fake-clock.ts';
import { LEDGER_SCHEMA } from './ledger-rows.ts';
import { Ledger, type LedgerEntry, type Releasers } from './ledger.ts';
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

test('a release that somebody has given up on forgets nothing of what was acquired since', async () => {
  for (const acquiredWhile of ['released', 'forgotten'] as const) {
    const [durable, volatile] = await databases();
    const ledger = await Ledger.open(new FakeClock(), durable, volatile);
    const item = { kind: 'k', key: 'x', volatile: true };
    await ledger.acquire('o', item, () => Promise.resolve());
    const hanging = Promise.withResolvers<undefined>();
    const given = ledger.release(op, 'o', { k: () => hanging.promise });
    if (acquiredWhile === 'released') await ledger.acquire('o', item, () => Promise.resolve());
    hanging.resolve(undefined);
    if (acquiredWhile === 'forgotten') {
      await Promise.resolve();
      await Promise.resolve();
      await ledger.acquire('o', item, () => Promise.resolve());
    }
    assert.deepEqual(await given, []);
    for (const known of [ledger, await Ledger.open(new FakeClock(), durable, volatile)])
      assert.deepEqual(
        known.entriesOf('o').map(({ key, state }) => ({ key, state })),
        [{ key: 'x', state: 'held' }],
        acquiredWhile,
      );
  }
});

test('a kind that nobody can release is kept, not forgotten', async () => {
  const [durable, volatile] = await databases();
  const ledger = await Ledger.open(new FakeClock(), durable, volatile);
  await ledger.intend('o', { kind: 'strange', key: 'x', volatile: false });
  assert.equal((await ledger.release(op, 'o', {})).length, 1);
  assert.equal(ledger.entriesOf('o').length, 1);
});

/** Puts something else in place of what a row says. */
async function damage(db: Database, key: string, column: string, value: string): Promise<void> {
  await db.write({ sql: `UPDATE ledger SET ${column} = ? WHERE key = ?`, params: [value, key] });
}

test('a row that does not say what to release is set aside and named, the others are there', async () => {
  const torn = ['{{', '', '7', 'null', '[]', '{"a":', '\0'];
  for (const [i, text] of torn.entries()) {
    const [durable, volatile] = await databases();
    const ledger = await Ledger.open(new FakeClock(), durable, volatile);
    for (const key of ['a', 'b', 'c'])
      await ledger.acquire('o', { kind: 'k', key, volatile: i % 2 === 0 }, () => Promise.resolve());
    await damage(i % 2 === 0 ? volatile : durable, 'b', 'data', text);
    const next = await Ledger.open(new FakeClock(), durable, volatile);
    assert.deepEqual(
      next.entriesOf('o').map(({ key }) => key),
      ['a', 'c'],
    );
    const [damaged, ...more] = next.damaged;
    assert.deepEqual([damaged?.owner, damaged?.kind, damaged?.key, damaged?.setAside], ['o', 'k', 'b', true]);
    assert.match(damaged?.reason ?? '', /JSON|data/);
    assert.deepEqual(more, []);
    const kept = await (i % 2 === 0 ? volatile : durable).read<object>('SELECT key, data, reason FROM ledger_damaged');
    assert.deepEqual({ ...kept[0] }, { key: 'b', data: text, reason: damaged?.reason });
    // Told once.
    assert.deepEqual((await Ledger.open(new FakeClock(), durable, volatile)).damaged, []);
  }
});

test('a row with a flaw in its state, place or time is kept as something that may be there', async () => {
  for (const [column, value] of [
    ['state', 'odd'],
    ['seq', 'abc'],
    ['seq', '1.5'],
    ['seq', '9223372036854775807'],
    ['since_wall_ms', 'then'],
  ] as const) {
    const [durable, volatile] = await databases();
    const ledger = await Ledger.open(new FakeClock(), durable, volatile);
    for (const key of ['a', 'b'])
      await ledger.acquire('o', { kind: 'k', key, data: { of: key }, volatile: false }, () => Promise.resolve());
    await damage(durable, 'a', column, value);
    const next = await Ledger.open(new FakeClock(), durable, volatile);
    assert.deepEqual(
      next.damaged.map(({ key, setAside }) => [key, setAside]),
      [['a', false]],
      column,
    );
    const [a] = next.entriesOf('o').filter(({ key }) => key === 'a');
    assert.deepEqual(a?.data, { of: 'a' });
    assert.equal(a.state, column === 'state' ? 'intended' : 'held');
    await next.intend('o', { kind: 'k', key: 'c', volatile: false });
    const last = await Ledger.open(new FakeClock(), durable, volatile);
    assert.deepEqual(last.damaged, []);
    assert.equal(last.entriesOf('o').length, 3);
    assert.equal(last.entriesOf('o').at(-1)?.key, 'c');
    assert.deepEqual(await last.release(op, 'o', { k: () => Promise.resolve() }), []);
  }
});

test('what must be held is put back at its place', async () => {
  const items = ['a', 'b', 'c'].map((key, i) => ({ kind: 'k', key, data: { of: key }, volatile: i % 2 === 0 }));
  for (const lost of [['a'], ['b'], ['a', 'c'], ['a', 'b', 'c'], []]) {
    const [durable, volatile] = await databases();
    const ledger = await Ledger.open(new FakeClock(), durable, volatile);
    for (const item of items) await ledger.acquire('o', item, () => Promise.resolve());
    for (const entry of ledger.entriesOf('o')) if (lost.includes(entry.key)) await ledger.forget(entry);
    const missing = await ledger.restore('o', items);
    assert.deepEqual(
      missing.map(({ key }) => key),
      lost,
    );
    for (const one of [ledger, await Ledger.open(new FakeClock(), durable, volatile)]) {
      assert.deepEqual(
        one.entriesOf('o').map(({ key, data, state }) => ({ key, data, state })),
        items.map(({ key, data }) => ({ key, data, state: lost.includes(key) ? 'intended' : 'held' })),
      );
    }
    assert.deepEqual(await ledger.restore('o', items), []);
  }
});
