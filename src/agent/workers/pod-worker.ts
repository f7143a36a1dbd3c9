import { backoffDelayMs, type BackoffPolicy } from '../../lib/backoff.ts';
import { childSignal, type ChildSignal, type Op } from '../../lib/abort.ts';
import type { Timer } from '../../lib/clock.ts';
import { canceled, messageOf } from '../../lib/errors.ts';
import type { PendingWork } from '../../kube/gantry-extensions.ts';
import { mayBeAlive, type PodRuntimeState } from '../pleg/pod-runtime-state.ts';
import type { NodePod } from '../pods/node-pod.ts';
import { sameStatus } from '../status/pod-status.ts';
import { deleteObject, removeLogs } from '../terminate/let-go.ts';
import { rejectionOf } from '../sync/admit-pod.ts';
import { PodKiller } from '../terminate/pod-killer.ts';
import { removeSandboxes, stopSandboxes } from '../terminate/stop-sandboxes.ts';
import { makePodDirectory } from '../volumes/pod-directory.ts';
import { ContainerKills } from './container-kills.ts';
import type { WorkerDeps } from './deps.ts';
import { ExitAges } from './exit-ages.ts';
import { FailedSandbox } from './failed-sandbox.ts';
import { FailedStarts } from './failed-starts.ts';
import { lookAt } from './look-at.ts';
import { pendingWork } from './pending-work.ts';
import { PodReport } from './pod-report.ts';
import { Removals } from './removals.ts';
import { syncPod } from './sync-pod.ts';
import type { WorkerPhase } from './worker-phase.ts';

/** Why a pod is made to end. */
export type EndCause = 'deleted' | 'removed' | 'orphaned' | 'completed';

const WHY: Readonly<Record<EndCause, string>> = {
  deleted: 'the pod was deleted',
  removed: 'the pod is gone from the API',
  orphaned: 'no pod of the API owns it',
  completed: 'all containers have ended',
};

export interface PodWorkerHooks {
  /** Nothing is left to do for this pod. */
  readonly onFinished: (worker: PodWorker) => void;
}

const PASS_RETRY: BackoffPolicy = { initialMs: 500, maxMs: 15_000 };
/** A pass now and then even if nothing has told of anything. */
const RESYNC_MS = 60_000;
const SHORTEST_PAUSE_MS = 50;

/** One pod's lane: passes one after another, woken by events, each reading the truth anew. */
export class PodWorker {
  readonly uid: string;
  readonly #deps: WorkerDeps;
  readonly #hooks: PodWorkerHooks;
  readonly #failedStarts: FailedStarts;
  readonly #failedSandbox: FailedSandbox;
  readonly #exitAges: ExitAges;
  readonly #kills: ContainerKills;
  readonly #removals: Removals;
  readonly #report: PodReport;
  readonly #backOffsTold = new Set<string>();
  readonly #stoppedSandboxes = new Set<string>();
  #pod: NodePod;
  #phase: WorkerPhase = 'syncing';
  #cause: EndCause | undefined;
  #killer: PodKiller | undefined;
  #prepared = false;
  #dirty = false;
  #woken = false;
  #pass: ChildSignal | undefined;
  #timer: Timer | undefined;
  #failures = 0;
  #lastError: string | undefined;
  #blockTold: string | undefined;

  constructor(deps: WorkerDeps, pod: NodePod, hooks: PodWorkerHooks) {
    this.uid = pod.uid;
    this.#deps = deps;
    this.#hooks = hooks;
    this.#pod = pod;
    this.#failedStarts = new FailedStarts(deps.clock);
    this.#failedSandbox = new FailedSandbox(deps.clock);
    this.#exitAges = new ExitAges(deps.clock);
    this.#kills = new ContainerKills(deps, () => this.wake());
    this.#removals = new Removals(deps, pod.uid, () => this.wake());
    this.#report = new PodReport(deps, () => ({
      pod: this.#pod,
      ending: this.#cause !== undefined && this.#cause !== 'completed',
      hasObject: this.#cause !== 'orphaned' && this.#cause !== 'removed' && this.#phase !== 'finished',
    }));
  }

  get pod(): NodePod {
    return this.#pod;
  }

  get phase(): WorkerPhase {
    return this.#phase;
  }

  /** The pod's processes may use its volumes: they are kept (FAILURES.md row 46). */
  get wantsVolumes(): boolean {
    return this.#prepared && (this.#phase === 'syncing' || this.#phase === 'terminating');
  }

  /** Proved by a look of its own: nothing of the pod is alive, and nothing will be started. */
  get isOver(): boolean {
    return this.#phase === 'terminated' || this.#phase === 'finished';
  }

  /** The newest state that a pass has read. */
  get state(): PodRuntimeState | undefined {
    return this.#report.state;
  }

  /** The object as it is now. */
  update(pod: NodePod): void {
    const before = this.#pod;
    this.#pod = pod;
    if (pod.deletion !== undefined) this.end('deleted');
    // A change of the status is our own word coming back.
    else if (!this.#woken || !sameStatus(before.spec, pod.spec)) this.wake();
  }

  /** The API has dropped the object, by force or behind our back. */
  remove(last: NodePod): void {
    this.#pod = last;
    this.end('removed');
  }

  get cause(): EndCause | undefined {
    return this.#cause;
  }

  /** From now on the pod ends. A second call adds nothing, except that a deletion lets a completed pod go. */
  end(cause: EndCause): void {
    const before = this.#cause;
    if (this.#cause === undefined || this.#cause === 'completed') this.#cause = cause;
    this.#killer?.askedFor(this.#pod);
    if (before === this.#cause && this.#phase !== 'syncing') return;
    if (this.#phase === 'syncing') {
      this.#phase = 'terminating';
      this.#deps.story.tell({ pod: this.#pod, what: 'pod.ending', message: 'the pod is being ended', why: WHY[cause] });
      // A slow create must not hold up the end.
      this.#pass?.abort(canceled(WHY[cause]));
    } else {
      this.#deps.story.tell({ pod: this.#pod, what: 'pod.ending', message: WHY[cause] });
    }
    this.wake();
  }

  wake(): void {
    this.#dirty = true;
    this.#woken = true;
    if (this.#pass !== undefined) this.#report.changed();
    else if (this.#phase !== 'finished') void this.#run();
  }

  /** Ends nothing but this worker: containers and volumes stay as they are. */
  stop(): void {
    this.#timer?.cancel();
    void this.#killer?.close();
    this.#pass?.abort(canceled('the agent stops'));
  }

  /** What is not finished, for `explain`. */
  pending(): PendingWork[] {
    const sandbox = this.#phase === 'syncing' ? this.#failedSandbox.last : undefined;
    return pendingWork({
      phase: this.#phase,
      state: this.#report.state,
      waiting: this.#report.waiting,
      waitingVolumes: this.#deps.volumes.ofPod(this.#pod).waitingFor,
      killer: this.#killer,
      // A pass that only waits for the next try's time has not failed, and has mended nothing.
      lastError: this.#lastError ?? sandbox?.message,
      failures: this.#lastError === undefined ? (sandbox?.failures ?? 0) : this.#failures,
    });
  }

  async #run(): Promise<void> {
    while (this.#dirty && this.#phase !== 'finished' && !this.#deps.op.signal.aborted) {
      this.#dirty = false;
      this.#timer?.cancel();
      using pass = childSignal(this.#deps.op.signal);
      this.#pass = pass;
      const op = { ...this.#deps.op, signal: pass.signal };
      this.#report.passBegins(op);
      const againInMs = await this.#onePass(op);
      this.#report.passEnds();
      this.#pass = undefined;
      this.#arm(againInMs);
    }
  }

  async #onePass(op: Op): Promise<number | undefined> {
    const phase = this.#phase;
    try {
      const againInMs = await this.#step(op);
      this.#failures = 0;
      this.#lastError = undefined;
      // The next state has work of its own.
      if (this.#phase !== phase) this.#dirty = true;
      return againInMs;
    } catch (error) {
      // Broken off on purpose: the new phase goes on at once.
      if (op.signal.aborted || this.#phase !== phase) {
        this.#dirty = true;
        return undefined;
      }
      this.#failures += 1;
      this.#lastError = messageOf(error);
      this.#deps.op.log.warn(
        { podUid: this.uid, phase, failures: this.#failures, error: this.#lastError },
        'pod worker: the pass failed',
      );
      return backoffDelayMs(PASS_RETRY, this.#failures);
    }
  }

  #arm(againInMs: number | undefined): void {
    if (this.#dirty || this.#phase === 'finished' || this.#deps.op.signal.aborted) return;
    const delayMs = Math.max(SHORTEST_PAUSE_MS, Math.min(againInMs ?? RESYNC_MS, RESYNC_MS));
    this.#timer = this.#deps.clock.after(delayMs, () => this.wake());
  }

  async #step(op: Op): Promise<number | undefined> {
    switch (this.#phase) {
      case 'syncing':
        return await this.#sync(op);
      case 'terminating':
        return await this.#terminate(op);
      case 'terminated':
        return await this.#letGo(op);
      case 'finished':
        return undefined;
    }
  }

  async #sync(op: Op): Promise<number | undefined> {
    const deps = this.#deps;
    const phase = this.#pod.object.status?.phase;
    const over = phase === 'Succeeded' || phase === 'Failed';
    if (!this.#prepared && (phase === undefined || phase === 'Pending') && (await this.#reject())) return undefined;
    // A pod that was over when this agent started gets no volumes again.
    if (!this.#prepared && !over) {
      await makePodDirectory(deps.paths, this.#pod);
      deps.volumes.adopt(this.uid);
      this.#prepared = true;
      deps.volumes.poke();
    }
    const result = await syncPod(op, deps, {
      pod: this.#pod,
      failedStarts: this.#failedStarts,
      failedSandbox: this.#failedSandbox,
      exitAges: this.#exitAges,
      removals: this.#removals,
      backOffsTold: this.#backOffsTold,
      stopped: this.#stoppedSandboxes,
      kill: (kill, state) => this.#kills.begin(this.#pod, kill, state),
      note: (seen) => this.#report.note(seen),
      report: (seen) => this.#report.tell(seen),
    });
    if (result.outcome !== undefined) this.end('completed');
    return result.againInMs;
  }

  /** Whether the pod is over, as it can never run here. Told as kubelet tells it. */
  async #reject(): Promise<boolean> {
    const deps = this.#deps;
    const rejection = rejectionOf(this.#pod.spec, {
      appArmor: await deps.node.hasAppArmor(),
      hugePages: deps.node.hugePages,
    });
    if (rejection === undefined) return false;
    const { reason, message } = rejection;
    deps.story.tell({
      pod: this.#pod,
      what: 'pod.rejected',
      message,
      outcome: 'failed',
      event: { type: 'Warning', reason },
    });
    const state = { uid: this.uid, sandboxes: [], containers: [] };
    this.#report.tell({ state, waiting: new Map(), outcome: 'Failed', rejection });
    this.end('completed');
    return true;
  }

  async #terminate(op: Op): Promise<number | undefined> {
    const deps = this.#deps;
    const state = await this.#lookAndTell(op);
    const cause = this.#cause ?? 'deleted';
    if (state.containers.some(mayBeAlive)) {
      this.#killer ??= await PodKiller.begin(
        { ...deps, recordPath: deps.paths.termination(this.uid), wake: () => this.wake() },
        this.#pod,
        WHY[cause],
      );
      this.#killer.update(this.#pod, state);
      return this.#killer.nextRetryMs();
    }
    await stopSandboxes(op, deps, { pod: this.#pod, state, stopped: this.#stoppedSandboxes, why: WHY[cause] });
    await this.#killer?.close();
    await this.#lookAndTell(op);
    this.#phase = 'terminated';
    deps.story.tell({
      pod: this.#pod,
      what: 'pod.terminated',
      message: 'nothing of the pod runs any more',
      why: WHY[cause],
      outcome: 'ok',
    });
    deps.volumes.poke();
    return undefined;
  }

  async #letGo(op: Op): Promise<number | undefined> {
    const deps = this.#deps;
    const pod = this.#pod;
    deps.volumes.poke();
    if (this.#cause === 'completed') return undefined;
    const teardown = deps.volumes.teardownOf(this.uid);
    // The volume manager wakes the pod with each volume that goes or blocks.
    if (teardown.kind === 'pending') return RECHECK_VOLUMES_MS;
    if (teardown.kind === 'blocked') this.#tellBlocked(teardown.volumes.map(({ name }) => name));
    const state = await this.#lookAndTell(op);
    await removeSandboxes(op, deps, pod, state);
    const kept = await removeLogs(op, deps.remover, deps.paths, pod);
    if (kept !== undefined) {
      deps.story.tell({
        pod,
        what: 'pod.logs-kept',
        message: `its logs could not be deleted: ${kept}`,
        outcome: 'failed',
      });
    }
    await deps.status.flush(this.uid);
    if (this.#cause === 'deleted') await deleteObject(op, deps.kube, pod);
    this.#phase = 'finished';
    deps.status.forget(this.uid);
    deps.images.forget(this.uid);
    deps.story.tell({
      pod,
      what: 'pod.gone',
      message: teardown.kind === 'blocked' ? 'the pod is gone, except for blocked volumes' : 'the pod is gone',
      outcome: 'ok',
    });
    this.#hooks.onFinished(this);
    return undefined;
  }

  #tellBlocked(names: readonly string[]): void {
    const text = names.join(', ');
    if (this.#blockTold === text) return;
    this.#blockTold = text;
    this.#deps.story.tell({
      pod: this.#pod,
      what: 'pod.volumes-left',
      message: `the pod is let go of; its volumes ${text} stay until what blocks them is gone`,
      outcome: 'blocked',
    });
  }

  /** Of a pod that ends: nothing of it waits for a start. */
  async #lookAndTell(op: Op): Promise<PodRuntimeState> {
    const state = await lookAt(op, this.#deps, this.uid);
    this.#report.tell({ state, waiting: new Map() });
    return state;
  }
}

/** Volumes wake the pod; this is for the wake-up that got lost. */
const RECHECK_VOLUMES_MS = 1_000;
