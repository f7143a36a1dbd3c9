import assert from 'node:assert/strict';
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
class FakeProcesses implements Pick<ProcessTable, 'view'> {
  readonly gone = new Set<number>();
  /** In the place of that. */
  answer: (() => ReturnType<ProcessTable['view']>) | undefined;

  view(pid: number): ReturnType<ProcessTable['view']> {
    if (this.answer !== undefined) return this.answer();
    return Promise.resolve(this.gone.has(pid) ? undefined : { pid, startTimeTicks: 7, state: 'S', ppid: 1 });
  }
}

function processTable(processes: FakeProcesses): ProcessTable {
  return {
    view: (pid) => processes.view(pid),
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
  readonly processes: FakeProcesses;
  readonly gone: Set<number>;
  readonly told: string[];
  readonly statuses: ExitStatus[];
  readonly corrected: ExitStatus[];
  readonly said: string[];
  /** What the look at a log says. */
  readonly logs: { loss: (path: string) => Promise<string | undefined> };
  /** Called before an exit is taken note of. */
  readonly listener: { hears: () => void };
  /** The process ends, and conmon says with which code. */
  readonly exit: (id: keyof typeof PIDS, code?: number) => void;
  readonly start: () => Promise<void>;
}

/** Tasks `a` and `b` are armed, and run. */
export async function scene(fn: (scene: Scene) => Promise<void>): Promise<void> {
  const folder = new FakeFolder();
  const clock = new FakeClock();
  const processes = new FakeProcesses();
  const { gone } = processes;
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
    processes: processTable(processes),
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
  const exit: Scene['exit'] = (id, code = 0) => {
    gone.add(PIDS[id][0]);
    folder.files.set(id, { code, writtenAtWallMs: clock.wallMs() });
  };
  await fn({
    ...{ folder, clock, processes, gone, told, statuses, corrected, said, logs, listener, exit },
    start: () => watcher.start(),
  });
  await watcher.close();
  assert.equal(folder.watches.length, 0);
  assert.equal(clock.pendingTimers, 0);
}
