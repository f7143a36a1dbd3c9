import type { Timer } from '../../lib/clock.ts';
import { messageOf } from '../../lib/errors.ts';
import type { JournalSubject } from '../../journal/journal.ts';
import { taskOf } from '../container/state.ts';
import { subjectOf } from '../container/subject.ts';
import type { RuntimeContext } from '../context.ts';
import { sandboxSubject } from '../store/sandbox-record.ts';
import type { Task } from '../task/task.ts';

const LOOK_EVERY_MS = 10_000;

interface Watched {
  readonly task: Task;
  readonly subject: JournalSubject;
  readonly what: string;
  readonly loses: string;
}

/**
 * A monitor that ends before its container takes the rest of the output with it, and often the exit code, and nothing tells us: so each is
 * looked at now and then, and its loss is written into the journal, once in the life of a daemon.
 */
export class MonitorLook {
  readonly #rt: RuntimeContext;
  readonly #told = new Set<string>();
  #timer: Timer | undefined;
  #closed = false;

  constructor(rt: RuntimeContext) {
    this.#rt = rt;
  }

  start(): void {
    this.#timer = this.#rt.clock.after(LOOK_EVERY_MS, () => {
      void this.look().finally(() => {
        if (!this.#closed) this.start();
      });
    });
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  /** Looks at all now. Never rejects. */
  async look(): Promise<void> {
    const watched = this.#watched();
    const ids = new Set(watched.map(({ task }) => task.id));
    for (const id of this.#told) if (!ids.has(id)) this.#told.delete(id);
    for (const each of watched) {
      const { id } = each.task;
      try {
        if (!this.#told.has(id) && (await this.#isLost(each.task))) this.#tell(each);
      } catch (error) {
        this.#rt.log.warn({ id, error: messageOf(error) }, 'a monitor could not be looked at');
      }
    }
  }

  /** In this order: a monitor always ends after what it monitors, unless it was lost. */
  async #isLost({ conmonPid, conmonStartTimeTicks, pid, startTimeTicks }: Task): Promise<boolean> {
    const { processes } = this.#rt;
    return !(await processes.alive(conmonPid, conmonStartTimeTicks)) && (await processes.alive(pid, startTimeTicks));
  }

  #tell({ task, subject, what, loses }: Watched): void {
    this.#told.add(task.id);
    const message = `its monitor (conmon, process ${String(task.conmonPid)}) has ended before it: ${loses}`;
    this.#rt.journal.record({ subject, what, message, outcome: 'failed' });
    this.#rt.log.warn({ id: task.id, conmonPid: task.conmonPid }, 'a monitor has ended before what it monitors');
  }

  #watched(): Watched[] {
    const { containers, sandboxes } = this.#rt;
    const ofContainers = containers.list().flatMap(({ meta, status }): Watched[] => {
      const task = status.state.kind === 'running' ? taskOf(status) : undefined;
      if (task === undefined) return [];
      const loses = 'its output is lost from here on, and its exit code may be; restart the container';
      return [{ task, subject: subjectOf(this.#rt, meta), what: 'container.monitor-lost', loses }];
    });
    const ofSandboxes = sandboxes.list().flatMap(({ meta, status }): Watched[] => {
      const { infra } = status;
      if (infra === undefined || status.state.kind !== 'ready' || status.stopping !== undefined) return [];
      const loses = 'the process that holds the PID namespace goes on without it; nothing needs to be done';
      return [{ task: infra, subject: sandboxSubject(meta), what: 'sandbox.monitor-lost', loses }];
    });
    return [...ofContainers, ...ofSandboxes];
  }
}
