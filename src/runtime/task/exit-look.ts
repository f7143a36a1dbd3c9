import { messageOf } from '../../lib/errors.ts';
import { decodeWaitStatus, type WaitStatus } from '../../linux/pidfd.ts';
import { combineExit, exitFromWait, type ExitRecord, type ExitStatus } from './exit-status.ts';
import type { ExitWatcherDeps, WatchedTask } from './watched-task.ts';
import { isAlive } from './process-end.ts';

/** So long a process may be gone before its exit file is there: then the process table's word is taken. */
const FILE_GRACE_MS = 2_000;
/** So long a code above 128 waits for the pidfd to say whether it was a signal: both come from the same death. */
const WAIT_STATUS_MS = 50;

const SIGKILL = 9;

/**
 * One armed task:
 *
 *     armed --exit file--------------------------------------> told
 *       |                                                       ^
 *       +--process gone, no file--> exiting --2 s, or the monitor is gone, too--+
 *
 * Told without its file, it goes on looking for it while the monitor lives, and corrects once.
 */
export class ExitLook {
  readonly #deps: ExitWatcherDeps;
  readonly #task: WatchedTask;
  readonly #pidfdWord = Promise.withResolvers<undefined>();
  readonly #pidfd: Disposable | undefined;
  #wait: WaitStatus | undefined;
  #pidfdSpoke = false;
  #goneSinceMs: number | undefined;
  #toldWithout: 'file' | 'nothing' | undefined;
  #closed = false;
  #running: Promise<void> | undefined;
  #again = false;

  constructor(deps: ExitWatcherDeps, task: WatchedTask) {
    this.#deps = deps;
    this.#task = task;
    this.#pidfd = this.#watchProcess();
  }

  #watchProcess(): Disposable | undefined {
    try {
      return this.#deps.processes.watch(this.#task, (status) => {
        this.#pidfdSays(status);
        this.wake();
      });
    } catch (error) {
      // Out of descriptors: the look every second finds the exit all the same.
      this.#deps.log.warn({ containerId: this.#task.id, error: messageOf(error) }, 'process cannot be watched');
      this.#pidfdSays(undefined);
      return undefined;
    }
  }

  #pidfdSays(status: WaitStatus | undefined): void {
    this.#wait = status ?? this.#wait;
    this.#pidfdSpoke = true;
    this.#pidfdWord.resolve(undefined);
  }

  get told(): boolean {
    return this.#toldWithout !== undefined;
  }

  wake(): void {
    void this.look();
  }

  /** One look at a time; a wake-up during one makes another follow. Never rejects: what fails now is looked at again. */
  look(): Promise<void> {
    if (this.#running !== undefined) {
      this.#again = true;
      return this.#running;
    }
    this.#running = this.#lookUntilQuiet().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  close(): void {
    this.#closed = true;
    this.#pidfd?.[Symbol.dispose]();
  }

  async #lookUntilQuiet(): Promise<void> {
    for (let wanted = true; wanted; wanted = this.#takeAgain()) {
      if (this.#closed || this.#toldWithout === 'nothing') return;
      try {
        await this.#lookOnce();
      } catch (error) {
        this.#deps.log.warn({ containerId: this.#task.id, error: messageOf(error) }, 'exit cannot be looked at');
      }
    }
  }

  #takeAgain(): boolean {
    const again = this.#again;
    this.#again = false;
    return again;
  }

  async #lookOnce(): Promise<void> {
    const record = await this.#deps.exits.read(this.#task.id);
    if (record !== undefined) await this.#foundFile(record);
    else if (!this.told) await this.#lookAtProcess();
  }

  async #lookAtProcess(): Promise<void> {
    const { clock, processes } = this.#deps;
    if (await isAlive(processes, this.#task)) return;
    const view = await processes.view(this.#task.pid);
    if (view?.state === 'Z' && view.startTimeTicks === this.#task.startTimeTicks && view.exitCode !== undefined) {
      this.#wait = decodeWaitStatus(view.exitCode);
    }
    const nowMs = clock.monotonicMs();
    if (this.#goneSinceMs === undefined) {
      this.#goneSinceMs = nowMs;
      clock.after(FILE_GRACE_MS, () => this.wake());
    }
    const { conmonPid: pid, conmonStartTimeTicks: startTimeTicks } = this.#task;
    const monitorLives = await isAlive(processes, { pid, startTimeTicks });
    const graceOver = nowMs - this.#goneSinceMs >= FILE_GRACE_MS;
    if (!graceOver && (monitorLives || !this.#pidfdSpoke)) return;
    // Its last deed may have been the file.
    const record = await this.#deps.exits.read(this.#task.id);
    if (record !== undefined) await this.#foundFile(record);
    else await this.#tell(this.#withoutFile(monitorLives), 'file');
  }

  #withoutFile(monitorLives: boolean): ExitStatus {
    const finishedAtWallMs = this.#deps.clock.wallMs();
    if (this.#wait !== undefined) {
      return { ...exitFromWait(this.#wait, finishedAtWallMs), logMayBeIncomplete: true };
    }
    const monitor = monitorLives ? 'its monitor does not react' : 'its monitor is gone';
    return {
      kind: 'unknown',
      reason: `process ${this.#task.pid} is gone, ${monitor} and left no exit status`,
      logMayBeIncomplete: true,
      finishedAtWallMs,
    };
  }

  async #foundFile(record: ExitRecord): Promise<void> {
    if (record.code > 128 && !this.#pidfdSpoke) {
      await Promise.race([this.#pidfdWord.promise, this.#deps.clock.sleep(WAIT_STATUS_MS)]);
    }
    await this.#tell(combineExit(record, this.#wait), 'nothing');
  }

  async #tell(status: ExitStatus, without: 'file' | 'nothing'): Promise<void> {
    const whole = await this.#withOom(status);
    if (this.#closed) return;
    const before = this.#toldWithout;
    this.#toldWithout = without;
    if (before === undefined) this.#deps.onExit(this.#task.id, whole);
    else this.#deps.onCorrection?.(this.#task.id, whole);
  }

  /** FAILURES.md row 32: OOM is to blame when the counter rose and the init died of a SIGKILL that was not ours. */
  async #withOom(status: ExitStatus): Promise<ExitStatus> {
    if (status.kind !== 'exited' || this.#deps.oomKillCount === undefined) return status;
    let kills: number;
    try {
      kills = await this.#deps.oomKillCount(this.#task.cgroupPath);
    } catch {
      // No cgroup any more: nobody can tell.
      return status;
    }
    if (kills <= (this.#task.oomKillsBefore ?? 0)) return status;
    const init = status.signal === SIGKILL && this.#task.weSentKill?.() !== true;
    return { ...status, oom: init ? 'init' : 'child' };
  }
}
