import { withDeadline, type Op } from '../../lib/abort.ts';
import { messageOf } from '../../lib/errors.ts';
import type { ExitRecord } from './exit-status.ts';
import { isAlive } from './process-end.ts';
import type { ExitWatcherDeps, WatchedTask } from './watched-task.ts';

/** So long an exit waits for the process table, which takes a fraction of a millisecond. Then its file counts without it. */
const ASK_MS = 500;

/**
 * Tells one task's exit file from one that somebody else has put in its place. conmon writes it when it has reaped the process: what lies there
 * while the process lives is not its exit, and does not become it when the process ends. conmon's own replaces it then.
 */
export class StrayFile {
  readonly #op: Op;
  readonly #deps: Pick<ExitWatcherDeps, 'clock' | 'processes'>;
  readonly #task: WatchedTask;
  #stray: ExitRecord | undefined;

  constructor(op: Op, deps: Pick<ExitWatcherDeps, 'clock' | 'processes'>, task: WatchedTask) {
    this.#op = op;
    this.#deps = deps;
    this.#task = task;
  }

  /** Of a file that has just been read: the process is looked at after the file, so that an end in between makes no true one a stray. */
  async is(record: ExitRecord): Promise<boolean> {
    if (this.#isKnown(record)) return true;
    if (!(await this.#processLives())) return false;
    this.#stray = record;
    const { id: containerId, pid } = this.#task;
    this.#op.log.warn(
      { containerId, pid, code: record.code },
      'an exit file is there while its process lives: not believed, its end is waited for',
    );
    return true;
  }

  #isKnown({ code, writtenAtWallMs }: ExitRecord): boolean {
    return this.#stray?.code === code && this.#stray.writtenAtWallMs === writtenAtWallMs;
  }

  async #processLives(): Promise<boolean> {
    const { clock, processes } = this.#deps;
    const { id: containerId, pid } = this.#task;
    const what = `asking whether process ${String(pid)} lives`;
    try {
      return await withDeadline(this.#op, clock, ASK_MS, what, () => isAlive(processes, this.#task));
    } catch (error) {
      if (!this.#op.signal.aborted) {
        this.#op.log.warn({ containerId, error: messageOf(error) }, 'an exit file is believed unproved');
      }
      return false;
    }
  }
}
