import type { Op } from '../../lib/abort.ts';
import type { Timer } from '../../lib/clock.ts';
import { canceled, messageOf } from '../../lib/errors.ts';
import { ExitLook } from './exit-look.ts';
import type { ExitWatcherDeps, WatchedTask } from './watched-task.ts';

const LOOK_EVERY_MS = 1_000;

/**
 * Tells each armed task's exit once. The watch on the exits folder and the pidfds only wake it; what counts is what the
 * exit file and the process table say, and a look every second finds what nothing told (DESIGN.md, idea 5).
 */
export class ExitWatcher implements AsyncDisposable {
  readonly #deps: ExitWatcherDeps;
  readonly #looks = new Map<string, ExitLook>();
  readonly #ending = new AbortController();
  readonly #op: Op;
  #watcher: Disposable | undefined;
  /** That there is none has been said, and that it is over has not. */
  #unwatched = false;
  #timer: Timer | undefined;
  #round: Promise<void> | undefined;
  #closed = false;

  constructor(deps: ExitWatcherDeps) {
    this.#deps = deps;
    this.#op = { signal: this.#ending.signal, log: deps.log };
  }

  /** Makes the exits folder if need be, and begins to watch. Tasks may be armed before or after. */
  async start(): Promise<void> {
    await this.#deps.exits.ensure();
    this.#openWatch();
    this.#schedule();
    await this.look();
  }

  /** From now on this task's exit is told, also one that is past. Disposing ends that. Arming an id twice keeps the first. */
  arm(task: WatchedTask): Disposable {
    let look = this.#looks.get(task.id);
    if (look === undefined) {
      look = new ExitLook(this.#op, this.#deps, task);
      this.#looks.set(task.id, look);
      look.wake();
    }
    const armed = look;
    return {
      [Symbol.dispose]: () => {
        if (this.#looks.get(task.id) === armed) this.#looks.delete(task.id);
        armed.close();
      },
    };
  }

  /** Looks at every armed task now; resolves when all have been looked at. */
  async look(): Promise<void> {
    await Promise.all([...this.#looks.values()].map((look) => look.look()));
  }

  /** How many tasks are armed and have not ended. */
  get size(): number {
    return [...this.#looks.values()].filter((look) => !look.told).length;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#ending.abort(canceled('exits are not looked for any more'));
    this.#timer?.cancel();
    this.#closeWatch();
    for (const look of this.#looks.values()) look.close();
    this.#looks.clear();
    await this.#round;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #openWatch(): void {
    try {
      this.#watcher = this.#deps.exits.watch(
        (name) => {
          if (name === undefined) void this.look();
          // conmon writes `<id>.<random>` and renames it: only the whole name is an id.
          else this.#looks.get(name)?.wake();
        },
        (error) => {
          this.#deps.log.warn({ error: messageOf(error) }, 'watch on exit files lost');
          this.#closeWatch();
        },
      );
      if (this.#unwatched) this.#deps.log.info({}, 'exit files are watched again');
      this.#unwatched = false;
    } catch (error) {
      if (this.#unwatched) return;
      this.#unwatched = true;
      this.#deps.log.warn({ error: messageOf(error) }, 'exit files cannot be watched: looked at every second instead');
    }
  }

  #closeWatch(): void {
    this.#watcher?.[Symbol.dispose]();
    this.#watcher = undefined;
  }

  #schedule(): void {
    this.#timer = this.#deps.clock.after(LOOK_EVERY_MS, () => {
      this.#round = this.#lookRound().finally(() => {
        this.#round = undefined;
        if (!this.#closed) this.#schedule();
      });
    });
  }

  async #lookRound(): Promise<void> {
    // Somebody has removed it: the watch is on nothing.
    if (!(await this.#deps.exits.ensure().catch(() => false))) this.#closeWatch();
    if (!this.#closed && this.#watcher === undefined) this.#openWatch();
    await this.look();
  }
}
