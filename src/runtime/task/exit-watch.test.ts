import assert from 'node:assert/strict';
import { test } from 'node:test';
import { scene } from './fake-exits.ts';

test('a name wakes its own task at once, no name wakes all, a name that is no id nobody', () =>
  scene(async ({ folder, clock, told, exit, start }) => {
    await start();
    exit('a');
    folder.reads.length = 0;
    folder.watches[0]?.onName('a.X1Y2Z3');
    await clock.advance(0);
    assert.deepEqual([folder.reads, told], [[], []]);
    folder.watches[0]?.onName('a');
    await clock.advance(0);
    assert.deepEqual([folder.reads, told], [['a'], ['a']]);
    exit('b');
    folder.watches[0]?.onName(undefined);
    await clock.advance(0);
    assert.deepEqual(told, ['a', 'b']);
  }));

test('what no watch has told is found within a second', () =>
  scene(async ({ clock, told, exit, start }) => {
    await start();
    exit('a');
    await clock.advance(999);
    assert.deepEqual(told, []);
    await clock.advance(1);
    assert.deepEqual(told, ['a']);
  }));

test('a watch that is lost is answered by a full look within a second, and opened again', () =>
  scene(async ({ folder, clock, told, exit, start }) => {
    await start();
    folder.watches[0]?.onLost(new Error('queue overflow'));
    assert.equal(folder.watches.length, 0);
    for (const id of ['a', 'b'] as const) exit(id);
    await clock.advance(1_000);
    assert.deepEqual(told, ['a', 'b']);
    assert.equal(folder.watches.length, 1);
  }));

test('a folder that somebody has removed is there again within a second, and watched anew', () =>
  scene(async ({ folder, clock, told, exit, start }) => {
    await start();
    const before = folder.watches[0];
    folder.isThere = false;
    await clock.advance(1_000);
    assert.ok(folder.isThere);
    assert.equal(folder.watches.length, 1);
    assert.notEqual(folder.watches[0], before);
    exit('b');
    folder.watches[0]?.onName('b');
    await clock.advance(0);
    assert.deepEqual(told, ['b']);
  }));

test('a folder that cannot be watched is looked at every second, until it can', () =>
  scene(async ({ folder, clock, told, exit, start }) => {
    folder.watchable = false;
    await start();
    exit('a');
    await clock.advance(1_000);
    assert.deepEqual(told, ['a']);
    folder.watchable = true;
    await clock.advance(1_000);
    assert.equal(folder.watches.length, 1);
  }));

test('that it cannot be watched is said once, and once that it is over', () =>
  scene(async ({ folder, clock, said, start }) => {
    folder.watchable = false;
    await start();
    await clock.advance(60_000);
    assert.equal(said.length, 1);
    folder.watchable = true;
    await clock.advance(60_000);
    assert.equal(said.length, 2);
    folder.watches[0]?.onLost(new Error('gone'));
    folder.watchable = false;
    await clock.advance(60_000);
    assert.equal(said.length, 4);
  }));

test('who runs is not looked for on the disk, nor who has left a file in memory', () =>
  scene(async ({ folder, clock, gone, told, exit, start }) => {
    await start();
    await clock.advance(10_000);
    gone.add(100);
    exit('a');
    await clock.advance(10_000);
    assert.deepEqual([told, folder.keptReads], [['a'], []]);
  }));

test('a disk that hangs holds nobody up: neither the others nor what can be told without it', () =>
  scene(async ({ folder, clock, gone, told, statuses, corrected, exit, start }) => {
    const { promise: answered, resolve: answer } = Promise.withResolvers<undefined>();
    folder.disk = answered;
    folder.kept.set('a', { code: 6, writtenAtWallMs: 5 });
    await start();
    gone.add(100).add(99);
    await clock.advance(1_500);
    exit('b');
    await clock.advance(1_000);
    assert.deepEqual(told, ['b']);
    await clock.advance(1_000);
    assert.deepEqual(told, ['b', 'a']);
    assert.equal(statuses[1]?.kind, 'unknown');
    answer(undefined);
    await clock.advance(1_000);
    assert.deepEqual(corrected, [{ kind: 'exited', code: 6, finishedAtWallMs: 5 }]);
    await clock.advance(10_000);
    assert.deepEqual(folder.keptReads, ['a']);
  }));

test('a monitor of an earlier version leaves its file on the disk alone, and it is found there', () =>
  scene(async ({ folder, clock, gone, statuses, corrected, start }) => {
    await start();
    folder.kept.set('a', { code: 6, writtenAtWallMs: 5 });
    gone.add(100).add(99);
    await clock.advance(3_000);
    assert.deepEqual(statuses, [{ kind: 'exited', code: 6, finishedAtWallMs: 5 }]);
    // This one writes when it has already been told without.
    gone.add(200);
    await clock.advance(5_000);
    assert.equal(statuses[1]?.kind, 'unknown');
    folder.kept.set('b', { code: 7, writtenAtWallMs: 6 });
    gone.add(199);
    await clock.advance(2_000);
    assert.deepEqual(corrected, [{ kind: 'exited', code: 7, finishedAtWallMs: 6 }]);
  }));

test('a listener that throws is told again', () =>
  scene(async ({ clock, told, listener, exit, start }) => {
    await start();
    let failures = 2;
    listener.hears = () => {
      if (failures-- > 0) throw new Error('the journal is closed');
    };
    exit('a');
    await clock.advance(10_000);
    assert.deepEqual(told, ['a']);
  }));

test('output that may be missing from a log is said with the exit', () =>
  scene(async ({ clock, statuses, corrected, logs, exit, start }) => {
    logs.loss = (path) => Promise.resolve(path === '/logs/a' ? 'its file system is full' : undefined);
    await start();
    for (const id of ['a', 'b'] as const) exit(id);
    await clock.advance(1_000);
    assert.deepEqual(
      statuses.map(({ logLoss }) => logLoss),
      ['its file system is full', undefined],
    );
    assert.deepEqual(corrected, []);
  }));

test('a disk with logs that hangs holds an exit up for half a second, and what it says then is a correction, once', () =>
  scene(async ({ folder, clock, told, statuses, corrected, logs, exit, start }) => {
    const { promise: answered, resolve: answer } = Promise.withResolvers<string>();
    logs.loss = (path) => (path === '/logs/a' ? answered : Promise.resolve(undefined));
    await start();
    exit('a');
    folder.watches[0]?.onName('a');
    await clock.advance(499);
    assert.deepEqual(told, []);
    exit('b');
    folder.watches[0]?.onName('b');
    await clock.advance(1);
    assert.deepEqual(told, ['b', 'a']);
    assert.equal(statuses[1]?.logLoss, undefined);
    answer('its last line is cut');
    await clock.advance(10_000);
    assert.deepEqual(
      corrected.map(({ logLoss }) => logLoss),
      ['its last line is cut'],
    );
    assert.deepEqual(told, ['b', 'a']);
  }));

test('a log that cannot be looked at holds nothing up, and one without its end says that already', () =>
  scene(async ({ clock, gone, statuses, logs, exit, start }) => {
    logs.loss = () => Promise.reject(new Error('the helper has died'));
    await start();
    exit('a');
    await clock.advance(1_000);
    assert.equal(statuses[0]?.logLoss, undefined);
    logs.loss = () => Promise.resolve('its last line is cut');
    gone.add(200);
    await clock.advance(5_000);
    assert.deepEqual([statuses[1]?.logMayBeIncomplete, statuses[1]?.logLoss], [true, undefined]);
  }));
