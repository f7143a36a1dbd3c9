import { backoffDelayMs, type BackoffPolicy } from '../../lib/backoff.ts';
import type { Op } from '../../lib/abort.ts';
import { messageOf } from '../../lib/errors.ts';
import { mayBeAlive, type PodRuntimeState } from '../pleg/pod-runtime-state.ts';
import { DEFAULT_GRACE_SECONDS, type NodePod } from '../pods/node-pod.ts';
import { Deadline, graceMs } from './deadline.ts';
import { killContainer, type KillDeps } from './kill-container.ts';
import { readTermination, writeTermination, type TerminationRecord } from './termination-record.ts';

export interface PodKillerDeps extends KillDeps {
  readonly bootId: string;
  readonly recordPath: string;
  readonly op: Op;
  /** A container's end has been reached, or could not be. */
  readonly wake: () => void;
}

/** Between two tries at a container whose StopContainer failed. */
const RETRY: BackoffPolicy = { initialMs: 1_000, maxMs: 30_000 };

/**
 * The end of one pod's containers, side by side, each with what is left until one common deadline. The deadline and the hooks
 * that ran are written down, so that a restarted agent goes on where this one stopped and nobody gets the grace twice.
 */
export class PodKiller {
  readonly #deps: PodKillerDeps;
  readonly #deadline: Deadline;
  readonly #why: string;
  readonly #sinceWallMs: number;
  readonly #sinceBoottimeMs: number;
  readonly #hooksDone: Set<string>;
  readonly #running = new Set<string>();
  readonly #failures = new Map<string, { count: number; notBeforeMs: number; message: string }>();
  #saving: Promise<unknown> = Promise.resolve();
  #closed = false;

  private constructor(deps: PodKillerDeps, record: TerminationRecord) {
    this.#deps = deps;
    this.#deadline = new Deadline(deps.clock, record.deadlineBoottimeMs);
    this.#why = record.why;
    this.#sinceWallMs = record.sinceWallMs;
    this.#sinceBoottimeMs = record.sinceBoottimeMs;
    this.#hooksDone = new Set(record.hooksDone);
  }

  /** Goes on with an end that has begun before, or begins one. */
  static async begin(deps: PodKillerDeps, pod: NodePod, why: string): Promise<PodKiller> {
    const earlier = await readTermination(deps.recordPath, deps.bootId);
    const nowMs = deps.clock.boottimeMs();
    const record = earlier ?? {
      bootId: deps.bootId,
      deadlineBoottimeMs: nowMs + graceOf(pod),
      why,
      hooksDone: [],
      sinceWallMs: deps.clock.wallMs(),
      sinceBoottimeMs: nowMs,
    };
    const killer = new PodKiller(deps, record);
    killer.askedFor(pod);
    if (earlier === undefined) await killer.#save();
    return killer;
  }

  /** A later request for the same end counts if it makes it shorter, and then at once. */
  askedFor(pod: NodePod): void {
    const { deletion } = pod;
    if (deletion === undefined) return;
    const { clock } = this.#deps;
    const wholeMs = graceMs(deletion, specGraceSeconds(pod));
    // The moment of the request is known to the second; past it, the grace may have been counted from then.
    const requestedAgoMs = clock.wallMs() - (deletion.atWallMs - deletion.graceSeconds * 1000);
    const elapsedMs = Math.min(Math.max(requestedAgoMs - 1_000, 0), this.#elapsedMs());
    const shortened = this.#deadline.shorten(clock.boottimeMs() + Math.max(0, wholeMs - elapsedMs));
    if (shortened) void this.#save();
  }

  get deadline(): Deadline {
    return this.#deadline;
  }

  get why(): string {
    return this.#why;
  }

  /** What is being waited for, and what went wrong so far: for `explain`. */
  problems(): { container: string; message: string; attempts: number }[] {
    return [...this.#failures].map(([container, { message, count }]) => ({ container, message, attempts: count }));
  }

  /** Sees to it that every container that may be alive is being ended. Call it with each new state. */
  update(pod: NodePod, state: PodRuntimeState): void {
    for (const container of state.containers) {
      if (!mayBeAlive(container) || this.#running.has(container.id)) continue;
      const failed = this.#failures.get(container.name);
      if (failed !== undefined && this.#deps.clock.monotonicMs() < failed.notBeforeMs) continue;
      this.#running.add(container.id);
      const lifecycle = pod.spec.containers.find(({ name }) => name === container.name)?.lifecycle;
      const target = {
        pod,
        container,
        lifecycle,
        why: this.#why,
        deadline: this.#deadline,
        hookDone: this.#hooksDone.has(container.name),
        onHookDone: async () => {
          this.#hooksDone.add(container.name);
          await this.#save();
        },
      };
      void killContainer(this.#deps.op, this.#deps, target)
        .then(
          () => {
            this.#failures.delete(container.name);
          },
          (error: unknown) => {
            this.#failed(pod, container.name, container.id, error);
          },
        )
        .finally(() => {
          this.#running.delete(container.id);
          this.#deps.wake();
        });
    }
  }

  /** In milliseconds, when a failed one is tried again. */
  nextRetryMs(): number | undefined {
    const times = [...this.#failures.values()].map(({ notBeforeMs }) => notBeforeMs);
    return times.length === 0 ? undefined : Math.max(0, Math.min(...times) - this.#deps.clock.monotonicMs());
  }

  /** Nothing is written any more once it has resolved. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#deadline.close();
    await this.#saving;
  }

  #failed(pod: NodePod, container: string, containerId: string, error: unknown): void {
    const count = (this.#failures.get(container)?.count ?? 0) + 1;
    const message = messageOf(error);
    const notBeforeMs = this.#deps.clock.monotonicMs() + backoffDelayMs(RETRY, count);
    this.#failures.set(container, { count, notBeforeMs, message });
    if (this.#deps.op.signal.aborted) return;
    this.#deps.story.tell({
      pod,
      container,
      containerId,
      what: 'container.kill-failed',
      message: `error killing container ${container}: ${message}`,
      outcome: 'failed',
      event: { type: 'Warning', reason: 'FailedKillPod' },
    });
  }

  #elapsedMs(): number {
    return Math.max(0, this.#deps.clock.boottimeMs() - this.#sinceBoottimeMs);
  }

  async #save(): Promise<void> {
    const record: TerminationRecord = {
      bootId: this.#deps.bootId,
      deadlineBoottimeMs: this.#deadline.endBoottimeMs,
      why: this.#why,
      hooksDone: [...this.#hooksDone],
      sinceWallMs: this.#sinceWallMs,
      sinceBoottimeMs: this.#sinceBoottimeMs,
    };
    // One after another: a later record must not be overtaken by an earlier one.
    this.#saving = this.#saving.then(async () => {
      if (!this.#closed) await writeTermination(this.#deps.recordPath, record);
    });
    await this.#saving;
  }
}

function specGraceSeconds(pod: NodePod): number {
  return pod.spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS;
}

function graceOf(pod: NodePod): number {
  return graceMs(pod.deletion, specGraceSeconds(pod));
}
