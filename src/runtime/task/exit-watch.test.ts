import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../lib/fake-clock.ts';
import { silentLog } from '../../lib/log.ts';
import type { ExitFolder } from './exit-folder.ts';
import type { ExitRecord, ExitStatus } from './exit-status.ts';
import { ExitWatcher } from './exit-watcher.ts';
import type { ProcessTable } from './process-table.ts';
import type { WatchedTask } from './watched-task.ts';

/** conmon's folder in memory. What is in it is told by nobody but the test. */
class FakeFolder implements ExitFolder {
  readonly files = new Map<string, ExitRecord>();
  readonly reads: string[] = [];
  /** What lies on the disk, which answers when the test says so, or at once. */
  readonly kept = new Map<string, ExitRecord>();
  readonly keptReads: string[] = [];
  disk: Promise<unknown> = Promise.resolve();
  readonly watches: { onName: (name: string | undefined) => void; onLost: (error: unknown) => void }[] = [];
  isThere = true;
  watchable = true;

  read(id: string): Promise<ExitRecord | undefined> {
    this.reads.push(id);
    return Promise.resolve(this.files.get(id));
  }

  async readKept(id: string): Promise<ExitRecord | undefined> {
    this.keptReads.push(id);
    await this.disk;
    return this.kept.get(id);
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

/** Everybody lives but those whom a test has ended, and nobody's end is told by a descriptor. */
function processTable(gone: ReadonlySet<number>): ProcessTable {
  return {
    view: (pid) => Promise.resolve(gone.has(pid) ? undefined : { pid, startTimeTicks: 7, state: 'S', ppid: 1 }),
    signal: () => Promise.resolve(true),
    watch: () => ({ [Symbol.dispose]: () => undefined }),
  };
}

/** First process and monitor of each. */
const PIDS = { a: [100, 99], b: [200, 199] } as const;

function task(id: keyof typeof PIDS): WatchedTask {
  const [pid, conmonPid] = PIDS[id];
  return { id, pid, startTimeTicks: 7, conmonPid, conmonStartTimeTicks: 7, cgroupPath: '/x', logPath: `/logs/${id}` };
}

interface Scene {
  readonly folder: FakeFolder;
  readonly clock: FakeClock;
  readonly gone: Set<number>;
  readonly told: string[];
  readonly statuses: ExitStatus[];
  readonly corrected: ExitStatus[];
  readonly said: string[];
  /** What the look at a log says. */
  readonly logs: { loss: (path: string) => Promise<string | undefined> };
  /** Called before an exit is taken note of. */
  readonly listener: { hears: () => void };
  readonly start: () => Promise<void>;
}

async function scene(fn: (scene: Scene) => Promise<void>): Promise<void> {
  const folder = new FakeFolder();
  const clock = new FakeClock();
  const gone = new Set<number>();
  const told: string[] = [];
  const statuses: ExitStatus[] = [];
  const corrected: ExitStatus[] = [];
  const said: string[] = [];
  const logs: Scene['logs'] = { loss: () => Promise.resolve(undefined) };
  const listener = { hears: (): void => undefined };
  const say = (_fields: unknown, message: string): void => void said.push(message);
  const watcher = new ExitWatcher({
    clock,
    log: { ...silentLog, info: say, warn: say },
    processes: processTable(gone),
    exits: folder,
    logLoss: (_op, path) => logs.loss(path),
    onExit: (id, status) => {
      listener.hears();
      told.push(id);
      statuses.push(status);
    },
    onCorrection: (_id, status) => corrected.push(status),
  });
  for (const id of ['a', 'b'] as const) watcher.arm(task(id));
  await fn({ folder, clock, gone, told, statuses, corrected, said, logs, listener, start: () => watcher.start() });
  await watcher.close();
  assert.equal(folder.watches.length, 0);
  assert.equal(clock.pendingTimers, 0);
}

const exit = (folder: FakeFolder, id: keyof typeof PIDS): void =>
  void folder.files.set(id, { code: 0, writtenAtWallMs: 1 });

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
    for (const id of ['a', 'b'] as const) exit(folder, id);
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
  scene(async ({ folder, clock, gone, told, start }) => {
    await start();
    await clock.advance(10_000);
    gone.add(100);
    exit(folder, 'a');
    await clock.advance(10_000);
    assert.deepEqual([told, folder.keptReads], [['a'], []]);
  }));

test('a disk that hangs holds nobody up: neither the others nor what can be told without it', () =>
  scene(async ({ folder, clock, gone, told, statuses, corrected, start }) => {
    const { promise: answered, resolve: answer } = Promise.withResolvers<undefined>();
    folder.disk = answered;
    folder.kept.set('a', { code: 6, writtenAtWallMs: 5 });
    await start();
    gone.add(100).add(99);
    await clock.advance(1_500);
    exit(folder, 'b');
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
  scene(async ({ folder, clock, told, listener, start }) => {
    await start();
    let failures = 2;
    listener.hears = () => {
      if (failures-- > 0) throw new Error('the journal is closed');
    };
    exit(folder, 'a');
    await clock.advance(10_000);
    assert.deepEqual(told, ['a']);
  }));

test('output that may be missing from a log is said with the exit', () =>
  scene(async ({ folder, clock, statuses, corrected, logs, start }) => {
    logs.loss = (path) => Promise.resolve(path === '/logs/a' ? 'its file system is full' : undefined);
    await start();
    for (const id of ['a', 'b'] as const) exit(folder, id);
    await clock.advance(1_000);
    assert.deepEqual(
      statuses.map(({ logLoss }) => logLoss),
      ['its file system is full', undefined],
    );
    assert.deepEqual(corrected, []);
  }));

test('a disk with logs that hangs holds an exit up for half a second, and what it says then is a correction, once', () =>
  scene(async ({ folder, clock, told, statuses, corrected, logs, start }) => {
    const { promise: answered, resolve: answer } = Promise.withResolvers<string>();
    logs.loss = (path) => (path === '/logs/a' ? answered : Promise.resolve(undefined));
    await start();
    exit(folder, 'a');
    folder.watches[0]?.onName('a');
    await clock.advance(499);
    assert.deepEqual(told, []);
    exit(folder, 'b');
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
  scene(async ({ folder, clock, gone, statuses, logs, start }) => {
    logs.loss = () => Promise.reject(new Error('the helper has died'));
    await start();
    exit(folder, 'a');
    await clock.advance(1_000);
    assert.equal(statuses[0]?.logLoss, undefined);
    logs.loss = () => Promise.resolve('its last line is cut');
    gone.add(200);
    await clock.advance(5_000);
    assert.deepEqual([statuses[1]?.logMayBeIncomplete, statuses[1]?.logLoss], [true, undefined]);
  }));
