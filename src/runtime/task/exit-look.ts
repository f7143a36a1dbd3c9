import type { Op } from '../../lib/abort.ts';
import type { Timer } from '../../lib/clock.ts';
import { messageOf } from '../../lib/errors.ts';
import { decodeWaitStatus, type WaitStatus } from '../../linux/pidfd.ts';
import { SIGKILL } from '../../linux/signals.ts';
import { askLog } from './ask-log.ts';
import { combineExit, exitFromWait, type ExitRecord, type ExitStatus } from './exit-status.ts';
import type { ExitWatcherDeps, WatchedTask } from './watched-task.ts';
import { isAlive } from './process-end.ts';
import { StrayFile } from './stray-file.ts';

/** So long a process may be gone before its exit file is there: then the process table's word is taken. */
const FILE_GRACE_MS = 2_000;
/** So long it may be gone before the disk, too, is asked for a file: what the usual end leaves is in memory by then. */
const ASK_DISK_AFTER_MS = 1_000;
/** So long a code above 128 waits for the pidfd to say whether it was a signal: both come from the same death. */
const WAIT_STATUS_MS = 50;

/**
 * One armed task:
 *
 *     armed --process gone, exit file------------------------> told
 *       |                                                       ^
 *       +--process gone, no file--> exiting --2 s, or the monitor is gone, too--+
 *
 * Told without its file, it goes on looking for it, and corrects once. A file is looked for in memory; on the disk, where a monitor of an
 * earlier version leaves its only one, not while the process runs, and at most twice. No look waits for that answer: it makes another look.
 */
export class ExitLook {
  readonly #op: Op;
  readonly #deps: ExitWatcherDeps;
  readonly #task: WatchedTask;
  readonly #strayFile: StrayFile;
  readonly #pidfdWord = Promise.withResolvers<undefined>();
  readonly #pidfd: Disposable | undefined;
  #wait: WaitStatus | undefined;
  #pidfdSpoke = false;
  #goneSinceMs: number | undefined;
  /** When its end was told or seen first. */
  #endedAtWallMs: number | undefined;
  readonly #timers: Timer[] = [];
  /** `after`: when its monitor was gone, so that no file can have come later. */
  #diskAsked: 'while the monitor lived' | 'after' | undefined;
  #diskAnswered = false;
  #onDisk: ExitRecord | undefined;
  #failing = false;
  #toldWithout: 'file' | 'nothing' | undefined;
  #closed = false;
  #running: Promise<void> | undefined;
  #again = false;

  /** `op` ends when nothing is told any more, of a task that was let go of either. */
  constructor(op: Op, deps: ExitWatcherDeps, task: WatchedTask) {
    this.#op = op;
    this.#deps = deps;
    this.#task = task;
    this.#strayFile = new StrayFile(op, deps, task);
    this.#pidfd = this.#watchProcess();
  }

  #watchProcess(): Disposable | undefined {
    try {
      return this.#deps.processes.watch(this.#task, (status) => {
        this.#endedAtWallMs ??= this.#deps.clock.wallMs();
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
    for (const timer of this.#timers) timer.cancel();
  }

  async #lookUntilQuiet(): Promise<void> {
    for (let wanted = true; wanted; wanted = this.#takeAgain()) {
      if (this.#closed || this.#toldWithout === 'nothing') return;
      try {
        await this.#lookOnce();
        this.#failing = false;
      } catch (error) {
        if (!this.#failing) {
          this.#deps.log.warn(
            { containerId: this.#task.id, error: messageOf(error) },
            'an exit cannot be looked at or told: tried again every second',
          );
        }
        this.#failing = true;
      }
    }
  }

  #takeAgain(): boolean {
    const again = this.#again;
    this.#again = false;
    return again;
  }

  async #lookOnce(): Promise<void> {
    const record = await this.#file();
    if (record !== undefined) await this.#foundFile(record);
    else if (!this.told) await this.#lookAtProcess();
    else if (this.#diskAsked !== 'after' && !(await this.#monitorLives())) this.#askDisk(false);
  }

  async #file(): Promise<ExitRecord | undefined> {
    const record = await this.#deps.exits.read(this.#task.id);
    return record === undefined || (await this.#strayFile.is(record)) ? this.#onDisk : record;
  }

  #monitorLives(): Promise<boolean> {
    const { conmonPid: pid, conmonStartTimeTicks: startTimeTicks } = this.#task;
    return isAlive(this.#deps.processes, { pid, startTimeTicks });
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
      this.#endedAtWallMs ??= clock.wallMs();
      for (const delayMs of [ASK_DISK_AFTER_MS, FILE_GRACE_MS]) {
        this.#timers.push(clock.after(delayMs, () => this.wake()));
      }
    }
    const monitorLives = await this.#monitorLives();
    const goneForMs = nowMs - this.#goneSinceMs;
    // Nobody is left who could still say more.
    const settled = !monitorLives && this.#pidfdSpoke;
    if (!settled && goneForMs < ASK_DISK_AFTER_MS) return;
    // Its last deed may have been the file.
    const record = await this.#file();
    if (record !== undefined) {
      await this.#foundFile(record);
      return;
    }
    this.#askDisk(monitorLives);
    if (goneForMs >= FILE_GRACE_MS || (settled && this.#diskAnswered)) {
      await this.#tell(this.#withoutFile(monitorLives), 'file');
    }
  }

  #askDisk(monitorLives: boolean): void {
    if (this.#diskAsked === 'after' || (monitorLives && this.#diskAsked !== undefined)) return;
    const asked = monitorLives ? 'while the monitor lived' : 'after';
    this.#diskAsked = asked;
    this.#diskAnswered = false;
    void this.#deps.exits
      .readKept(this.#task.id)
      .catch((error: unknown) => {
        this.#deps.log.warn(
          { containerId: this.#task.id, error: messageOf(error) },
          'exit cannot be read off the disk',
        );
        return undefined;
      })
      .then((record) => {
        this.#onDisk ??= record;
        this.#diskAnswered = this.#diskAsked === asked;
        this.wake();
      });
  }

  #withoutFile(monitorLives: boolean): ExitStatus {
    const finishedAtWallMs = this.#endedAtWallMs ?? this.#deps.clock.wallMs();
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
    const known = await this.#withOom(status);
    const { inTime, late } = askLog(this.#op, this.#deps, this.#task, known);
    const whole = await inTime;
    if (this.#closed) return;
    if (this.#toldWithout === undefined) this.#deps.onExit(this.#task.id, whole);
    else this.#deps.onCorrection?.(this.#task.id, whole);
    // Not before: who fails to take note of it is told again.
    this.#toldWithout = without;
    void late.then((corrected) => this.#lossFoundLate(corrected));
  }

  /** Also of a task that has been let go of meanwhile: its record is there. */
  #lossFoundLate(corrected: ExitStatus | undefined): void {
    if (corrected === undefined || this.#op.signal.aborted) return;
    try {
      this.#deps.onCorrection?.(this.#task.id, corrected);
    } catch (error) {
      this.#op.log.warn({ containerId: this.#task.id, error: messageOf(error) }, 'a loss in a log cannot be noted');
    }
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
    // A container's cgroup is its own.
    if (kills === 0) return status;
    const init = status.signal === SIGKILL && this.#task.weSentKill?.() !== true;
    return { ...status, oom: init ? 'init' : 'child' };
  }
}
