import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../lib/fake-clock.ts';
import { silentLog } from '../../lib/log.ts';
import type { ExitFolder } from './exit-folder.ts';
import type { ExitRecord } from './exit-status.ts';
import { ExitWatcher } from './exit-watcher.ts';
import type { ProcessTable } from './process-table.ts';
import type { WatchedTask } from './watched-task.ts';

/** conmon's folder in memory. What is in it is told by nobody but the test. */
class FakeFolder implements ExitFolder {
  readonly files = new Map<string, ExitRecord>();
  readonly reads: string[] = [];
  readonly watches: { onName: (name: string | undefined) => void; onLost: (error: unknown) => void }[] = [];
  isThere = true;
  watchable = true;

  read(id: string): Promise<ExitRecord | undefined> {
    this.reads.push(id);
    return Promise.resolve(this.files.get(id));
  }

  ensure(): Promise<boolean> {
    const was = this.isThere;
    this.isThere = true;
    return Promise.resolve(was);
  }

  watch(onName: (name: string | undefined) => void, onLost: (error: unknown) => void): Disposable {
    if (!this.watchable) throw new Error('no inotify left');
    const entry = { onName, onLost };
    this.watches.push(entry);
    return { [Symbol.dispose]: () => this.watches.splice(this.watches.indexOf(entry), 1) };
  }
}

/** Everybody lives, and nobody's end is told. */
const processes: ProcessTable = {
  view: (pid) => Promise.resolve({ pid, startTimeTicks: 7, state: 'S', ppid: 1 }),
  signal: () => Promise.resolve(true),
  watch: () => ({ [Symbol.dispose]: () => undefined }),
};

const task = (id: string): WatchedTask => ({
  ...{ id, pid: 100, startTimeTicks: 7, conmonPid: 99, conmonStartTimeTicks: 7, cgroupPath: '/x' },
});

async function scene(
  fn: (scene: { folder: FakeFolder; clock: FakeClock; told: string[]; start: () => Promise<void> }) => Promise<void>,
): Promise<void> {
  const folder = new FakeFolder();
  const clock = new FakeClock();
  const told: string[] = [];
  const onExit = (id: string): void => void told.push(id);
  const watcher = new ExitWatcher({ clock, log: silentLog, processes, exits: folder, onExit });
  for (const id of ['a', 'b']) watcher.arm(task(id));
  await fn({ folder, clock, told, start: () => watcher.start() });
  await watcher.close();
  assert.equal(folder.watches.length, 0);
  assert.equal(clock.pendingTimers, 0);
}

const exit = (folder: FakeFolder, id: string): void => void folder.files.set(id, { code: 0, writtenAtWallMs: 1 });

test('a name wakes its own task at once, no name wakes all, a name that is no id nobody', () =>
  scene(async ({ folder, clock, told, start }) => {
    await start();
    exit(folder, 'a');
    folder.reads.length = 0;
    folder.watches[0]?.onName('a.X1Y2Z3');
    await clock.advance(0);
    assert.deepEqual([folder.reads, told], [[], []]);
    folder.watches[0]?.onName('a');
    await clock.advance(0);
    assert.deepEqual([folder.reads, told], [['a'], ['a']]);
    exit(folder, 'b');
    folder.watches[0]?.onName(undefined);
    await clock.advance(0);
    assert.deepEqual(told, ['a', 'b']);
  }));

test('what no watch has told is found within a second', () =>
  scene(async ({ folder, clock, told, start }) => {
    await start();
    exit(folder, 'a');
    await clock.advance(999);
    assert.deepEqual(told, []);
    await clock.advance(1);
    assert.deepEqual(told, ['a']);
  }));

test('a watch that is lost is answered by a full look within a second, and opened again', () =>
  scene(async ({ folder, clock, told, start }) => {
    await start();
    folder.watches[0]?.onLost(new Error('queue overflow'));
    assert.equal(folder.watches.length, 0);
    for (const id of ['a', 'b']) exit(folder, id);
    await clock.advance(1_000);
    assert.deepEqual(told, ['a', 'b']);
    assert.equal(folder.watches.length, 1);
  }));

test('a folder that somebody has removed is there again within a second, and watched anew', () =>
  scene(async ({ folder, clock, told, start }) => {
    await start();
    const before = folder.watches[0];
    folder.isThere = false;
    await clock.advance(1_000);
    assert.ok(folder.isThere);
    assert.equal(folder.watches.length, 1);
    assert.notEqual(folder.watches[0], before);
    exit(folder, 'b');
    folder.watches[0]?.onName('b');
    await clock.advance(0);
    assert.deepEqual(told, ['b']);
  }));

test('a folder that cannot be watched is looked at every second, until it can', () =>
  scene(async ({ folder, clock, told, start }) => {
    folder.watchable = false;
    await start();
    exit(folder, 'a');
    await clock.advance(1_000);
    assert.deepEqual(told, ['a']);
    folder.watchable = true;
    await clock.advance(1_000);
    assert.equal(folder.watches.length, 1);
  }));
