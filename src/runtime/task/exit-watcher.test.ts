import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { FakeClock } from '../../lib/fake-clock.ts';
import { silentLog } from '../../lib/log.ts';
import type { WaitStatus } from '../../linux/pidfd.ts';
import type { ExitStatus } from './exit-status.ts';
import { exitFolder } from './exit-folder.ts';
import { ExitWatcher } from './exit-watcher.ts';
import type { WatchedTask } from './watched-task.ts';
import type { ProcessTable, ProcessView } from './process-table.ts';

const INIT = 100;
const MONITOR = 99;

class FakeProcesses implements ProcessTable {
  readonly views = new Map<number, ProcessView>();
  readonly watches: { pid: number; onExit: (status: WaitStatus | undefined) => void }[] = [];

  constructor() {
    for (const pid of [INIT, MONITOR]) this.views.set(pid, { pid, startTimeTicks: 7, state: 'S', ppid: 1 });
  }

  view(pid: number): Promise<ProcessView | undefined> {
    return Promise.resolve(this.views.get(pid));
  }

  signal(): Promise<boolean> {
    return Promise.resolve(true);
  }

  watch(key: { pid: number }, onExit: (status: WaitStatus | undefined) => void): Disposable {
    const entry = { pid: key.pid, onExit };
    this.watches.push(entry);
    return { [Symbol.dispose]: () => this.watches.splice(this.watches.indexOf(entry), 1) };
  }

  end(pid: number, status?: WaitStatus): void {
    this.views.delete(pid);
    for (const entry of this.watches.filter((watch) => watch.pid === pid)) entry.onExit(status);
  }
}

interface Scene {
  readonly clock: FakeClock;
  readonly processes: FakeProcesses;
  readonly watcher: ExitWatcher;
  readonly told: [string, ExitStatus][];
  readonly corrected: [string, ExitStatus][];
  readonly oom: { kills: number };
  /** Looks now, which is what the clock would do within a second. */
  readonly look: () => Promise<void>;
  readonly file: (text: string) => Promise<void>;
  readonly path: string;
}

const TASK: WatchedTask = {
  id: 'c1',
  pid: INIT,
  startTimeTicks: 7,
  conmonPid: MONITOR,
  conmonStartTimeTicks: 7,
  cgroupPath: '/x/c1',
};

async function scene(fn: (scene: Scene) => Promise<void>): Promise<void> {
  const exitsDir = await mkdtemp(join(tmpdir(), 'gt-exits-'));
  const clock = new FakeClock();
  const processes = new FakeProcesses();
  const told: [string, ExitStatus][] = [];
  const corrected: [string, ExitStatus][] = [];
  const oom = { kills: 0 };
  const watcher = new ExitWatcher({
    clock,
    log: silentLog,
    processes,
    exits: exitFolder({ written: exitsDir, kept: join(exitsDir, 'none') }),
    oomKillCount: () => Promise.resolve(oom.kills),
    onExit: (id, status) => told.push([id, status]),
    onCorrection: (id, status) => corrected.push([id, status]),
  });
  try {
    await fn({
      ...{ clock, processes, watcher, told, corrected, oom },
      look: () => watcher.look(),
      file: (text) => writeFile(join(exitsDir, 'c1'), text),
      path: join(exitsDir, 'c1'),
    });
  } finally {
    await watcher.close();
    await rm(exitsDir, { recursive: true });
  }
}

test('nothing is told while it runs, and once when the file is there', () =>
  scene(async ({ watcher, told, look, file, clock, processes }) => {
    watcher.arm(TASK);
    await look();
    await clock.advance(60_000);
    assert.equal(told.length, 0);
    processes.end(INIT);
    await file('');
    await look();
    assert.equal(told.length, 0);
    await file('3');
    await look();
    await look();
    assert.equal(told.length, 1);
    assert.equal(told[0]?.[1].kind === 'exited' && told[0][1].code, 3);
  }));

test('gone without a file: 2 s, then the word of the process table, corrected once by the file', () =>
  scene(async ({ watcher, told, corrected, look, file, clock, processes }) => {
    watcher.arm(TASK);
    await look();
    processes.end(INIT, { kind: 'exited', code: 4 });
    await look();
    await clock.advance(1_900);
    await look();
    assert.equal(told.length, 0);
    await clock.advance(200);
    await look();
    assert.deepEqual(
      told.map(([, status]) => [status.kind === 'exited' && status.code, status.logMayBeIncomplete]),
      [[4, true]],
    );
    await file('4');
    await look();
    await look();
    assert.deepEqual(
      corrected.map(([, status]) => [status.kind === 'exited' && status.code, status.logMayBeIncomplete]),
      [[4, undefined]],
    );
    assert.equal(told.length, 1);
  }));

test('monitor gone, too: no need to wait', () =>
  scene(async ({ watcher, told, look, processes }) => {
    watcher.arm(TASK);
    processes.end(MONITOR);
    await look();
    assert.equal(told.length, 0);
    processes.end(INIT, undefined);
    // The clock stands still.
    for (let round = 0; round < 100; round++) await look();
    assert.equal(told.length, 1);
    const [, status] = told[0]!;
    assert.equal(status.kind, 'unknown');
    assert.match(status.reason, /monitor is gone/);
  }));

test('a zombie tells its status, a stranger with the same pid is not it', () =>
  scene(async ({ watcher, told, look, processes, clock }) => {
    watcher.arm(TASK);
    processes.views.set(INIT, { pid: INIT, startTimeTicks: 7, state: 'Z', ppid: 1, exitCode: 5 << 8 });
    await look();
    processes.views.set(INIT, { pid: INIT, startTimeTicks: 8, state: 'S', ppid: 1 });
    await look();
    await clock.advance(2_100);
    await look();
    assert.equal(told[0]?.[1].kind === 'exited' && told[0][1].code, 5);
  }));

test('OOM is to blame for a SIGKILL that we did not send, a child is named otherwise', () =>
  scene(async ({ watcher, told, look, file, processes, oom }) => {
    oom.kills = 1;
    let ours = false;
    const arm = (): Disposable => watcher.arm({ ...TASK, weSentKill: () => ours });
    processes.end(INIT);
    await file('137');
    for (const sent of [false, true]) {
      ours = sent;
      const armed = arm();
      processes.watches.at(-1)?.onExit({ kind: 'signaled', signal: 9, coreDumped: false });
      await look();
      armed[Symbol.dispose]();
    }
    await file('0');
    arm();
    await look();
    assert.deepEqual(
      told.map(([, status]) => status.kind === 'exited' && status.oom),
      ['init', 'child', 'child'],
    );
  }));

test('disarmed is disarmed', () =>
  scene(async ({ watcher, told, look, file, processes }) => {
    const armed = watcher.arm(TASK);
    armed[Symbol.dispose]();
    processes.end(INIT);
    await file('0');
    await look();
    assert.equal(told.length, 0);
    assert.equal(processes.watches.length, 0);
  }));

test('told without a file, the end is when the process died, and not when nobody waited any longer', () =>
  scene(async ({ watcher, told, clock, processes, look }) => {
    watcher.arm(TASK);
    await look();
    await clock.advance(300);
    const diedAtWallMs = clock.wallMs();
    processes.end(INIT, { kind: 'exited', code: 4 });
    await look();
    for (let step = 0; step < 5; step++) {
      await clock.advance(1_000);
      await look();
    }
    assert.equal(told[0]?.[1].finishedAtWallMs, diedAtWallMs);
  }));

test('what lies in the place of the file and is none, a folder or a pipe, keeps no exit from being told', async () => {
  for (const put of [(path: string) => mkdir(path), (path: string) => promisify(execFile)('mkfifo', [path])]) {
    await scene(async ({ watcher, told, look, path, clock, processes }) => {
      await put(path);
      watcher.arm(TASK);
      processes.end(INIT, { kind: 'exited', code: 4 });
      await look();
      await clock.advance(2_100);
      await look();
      assert.equal(told[0]?.[1].kind === 'exited' && told[0][1].code, 4);
    });
  }
});
