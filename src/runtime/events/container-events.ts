import type { Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import type { ContainerRecord, ContainerStore } from '../store/container-record.ts';
import type { SandboxRecord, SandboxStore } from '../store/sandbox-record.ts';
import { EventLog, type News } from './event-log.ts';
import { lifeEvents, lifeOfContainer, lifeOfSandbox, type LifeEvent } from './life-events.ts';

/** One step in the life of a container or sandbox, and its pod as it was at that moment. */
export interface ContainerEvent {
  readonly type: LifeEvent;
  /** The container's, or the sandbox's own. */
  readonly id: string;
  /** Never less than that of an earlier event, however the wall clock is set. */
  readonly atWallMs: number;
  /** Of a sandbox that is deleted: as it was last. */
  readonly sandbox: SandboxRecord | undefined;
  /** All of the sandbox that can be seen; without one that is deleted. */
  readonly containers: readonly ContainerRecord[];
}

export interface ContainerEventsDeps {
  readonly sandboxes: SandboxStore;
  readonly containers: ContainerStore;
  readonly clock: Clock;
}

/** A thousand containers that start and end at once. Records are shared with the stores, so an event is a few words of memory. */
const KEPT_EVENTS = 4_096;

/**
 * What happens to containers and sandboxes, told to whoever listens. It is read off the stores at the moment in which a change
 * becomes visible, whoever made it, so a listener can neither be told of what cannot be seen nor miss what can. A change
 * that recovery finds is told like any other; what an earlier process left is not: readers list first.
 */
export class ContainerEvents {
  readonly #deps: ContainerEventsDeps;
  readonly #log: EventLog<ContainerEvent>;
  #lastWallMs = 0;

  /** `kept`: how many events a reader may be behind. */
  constructor(deps: ContainerEventsDeps, kept = KEPT_EVENTS) {
    this.#deps = deps;
    this.#log = new EventLog(kept);
    deps.containers.observe((before, after) => {
      const happened = lifeEvents(lifeOfContainer(before?.status), lifeOfContainer(after?.status));
      const meta = (after ?? before)?.meta;
      if (meta === undefined || happened.length === 0) return;
      const { sandboxId } = meta.facts;
      this.#tell(meta.id, happened, deps.sandboxes.get(sandboxId), sandboxId);
    });
    deps.sandboxes.observe((before, after) => {
      const happened = lifeEvents(lifeOfSandbox(before?.status), lifeOfSandbox(after?.status));
      const record = after ?? before;
      if (record === undefined || happened.length === 0) return;
      this.#tell(record.meta.id, happened, record, record.meta.id);
    });
  }

  /** The wall clock, except that it never steps back: a kubelet drops what seems older than what it has. */
  nowWallMs(): number {
    this.#lastWallMs = Math.max(this.#lastWallMs, this.#deps.clock.wallMs());
    return this.#lastWallMs;
  }

  /** The number of the newest event, to go on from. */
  get lastSeq(): number {
    return this.#log.lastSeq;
  }

  /** Readers that wait for the next event. */
  get waiting(): number {
    return this.#log.waiting;
  }

  /** See {@link EventLog.follow}. Numbers mean something within this process only. */
  follow(op: Op, after?: number): AsyncGenerator<News<ContainerEvent>, void, undefined> {
    return this.#log.follow(op, after);
  }

  close(): void {
    this.#log.close();
  }

  #tell(id: string, happened: readonly LifeEvent[], sandbox: SandboxRecord | undefined, sandboxId: string): void {
    const containers = containersOf(this.#deps, sandboxId);
    const atWallMs = this.nowWallMs();
    for (const type of happened) this.#log.append({ type, id, atWallMs, sandbox, containers });
  }
}

/** The containers of a sandbox that can be seen. */
export function containersOf(
  { containers }: { readonly containers: Pick<ContainerStore, 'list'> },
  sandboxId: string,
): ContainerRecord[] {
  return containers
    .list()
    .filter(({ meta, status }) => meta.facts.sandboxId === sandboxId && status.state.kind !== 'creating');
}
