import type { ExitWatcher } from '../task/exit-watcher.ts';
import type { WatchedTask } from '../task/watched-task.ts';

/** Which tasks' exits are being waited for. One that is let go of is told no more. */
export class ExitMonitors {
  readonly #watcher: Pick<ExitWatcher, 'arm' | 'look'>;
  readonly #armed = new Map<string, Disposable>();

  constructor(watcher: Pick<ExitWatcher, 'arm' | 'look'>) {
    this.#watcher = watcher;
  }

  /** From now on the task's exit is told, also one that is past. */
  arm(task: WatchedTask): void {
    if (!this.#armed.has(task.id)) this.#armed.set(task.id, this.#watcher.arm(task));
  }

  /** Whether the task's exit, or its exit file, is still looked for. */
  isArmed(id: string): boolean {
    return this.#armed.has(id);
  }

  letGo(id: string): void {
    this.#armed.get(id)?.[Symbol.dispose]();
    this.#armed.delete(id);
  }

  /** Looks at all of them now. */
  look(): void {
    void this.#watcher.look();
  }
}
