import type { Op } from '../../lib/abort.ts';
import type { Timer } from '../../lib/clock.ts';
import { messageOf } from '../../lib/errors.ts';
import type { PodRuntimeState } from '../pleg/pod-runtime-state.ts';
import type { NodePod } from '../pods/node-pod.ts';
import type { Waiting } from '../status/container-status.ts';
import { podStatus } from '../status/pod-status.ts';
import type { Rejection } from '../sync/admit-pod.ts';
import type { PodOutcome } from '../sync/compute-pod-actions.ts';
import type { WorkerDeps } from './deps.ts';
import { lookAt } from './look-at.ts';

/** The pod that is told about, as it is now. */
export interface ReportedPod {
  readonly pod: NodePod;
  /** Somebody has asked for its end. */
  readonly ending: boolean;
  /** Whether there is an object to tell about: an orphan has none. */
  readonly hasObject: boolean;
}

export interface Seen {
  readonly state: PodRuntimeState;
  readonly waiting: ReadonlyMap<string, Waiting>;
  readonly outcome?: PodOutcome;
  readonly rejection?: Rejection;
}

/** Most passes are over sooner, and tell all that has changed themselves. */
const LONG_PASS_MS = 200;

/**
 * What is known of one pod, and the word of it to the API. A pass of its worker may wait for the runtime for minutes, for a cleanup that
 * hangs, say: what happens to the containers meanwhile is told all the same.
 */
export class PodReport {
  readonly #deps: WorkerDeps;
  readonly #subject: () => ReportedPod;
  #state: PodRuntimeState | undefined;
  #waiting: ReadonlyMap<string, Waiting> = new Map();
  #outcome: PodOutcome | undefined;
  #pass: Op | undefined;
  /** How often the state has been read. */
  #reads = 0;
  #timer: Timer | undefined;
  #looking = false;

  constructor(deps: WorkerDeps, subject: () => ReportedPod) {
    this.#deps = deps;
    this.#subject = subject;
  }

  /** As it was last read. */
  get state(): PodRuntimeState | undefined {
    return this.#state;
  }

  get waiting(): ReadonlyMap<string, Waiting> {
    return this.#waiting;
  }

  note({ state, waiting, outcome }: Seen): void {
    this.#reads += 1;
    this.#state = state;
    this.#waiting = waiting;
    if (outcome !== undefined) this.#outcome = outcome;
  }

  tell(seen: Seen): void {
    this.note(seen);
    const { pod, ending, hasObject } = this.#subject();
    if (!hasObject) return;
    const { node, clock, status } = this.#deps;
    const now = podStatus({
      pod,
      state: seen.state,
      waiting: seen.waiting,
      ...(this.#outcome === undefined ? {} : { outcome: this.#outcome }),
      ...(seen.rejection === undefined ? {} : { rejection: seen.rejection }),
      ending,
      hostIps: node.hostIps(),
      runtimeName: node.runtimeName(),
      nowWallMs: clock.wallMs(),
      previous: status.previous(pod),
    });
    status.set(pod, now);
  }

  /** While it goes on, {@link changed} is for us; its signal ends our looks. */
  passBegins(pass: Op): void {
    this.#pass = pass;
  }

  passEnds(): void {
    this.#pass = undefined;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** Something may have happened to the pod while a pass goes on. */
  changed(): void {
    const pass = this.#pass;
    // What the look that is under way has not seen, it looks for once more.
    if (pass === undefined || this.#timer !== undefined) return;
    this.#timer = this.#deps.clock.after(LONG_PASS_MS, () => {
      this.#timer = undefined;
      void this.#lookBeside(pass);
    });
  }

  async #lookBeside(pass: Op): Promise<void> {
    if (this.#looking) {
      this.changed();
      return;
    }
    this.#looking = true;
    const reads = this.#reads;
    try {
      const state = await lookAt(pass, this.#deps, this.#subject().pod.uid);
      if (this.#pass !== pass) return;
      // The pass has read it as well, and which of the two is newer nobody can tell.
      if (this.#reads !== reads) this.changed();
      else this.tell({ state, waiting: this.#waiting });
    } catch (error) {
      if (pass.signal.aborted) return;
      pass.log.warn({ error: messageOf(error) }, 'what happens to a pod meanwhile cannot be told');
      if (this.#pass === pass) this.changed();
    } finally {
      this.#looking = false;
    }
  }
}
