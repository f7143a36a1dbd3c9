import { canceled, messageOf } from '../../lib/errors.ts';
import type { Clock, Timer } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { NodePod } from '../pods/node-pod.ts';
import type { PodPaths } from '../pods/paths.ts';
import { ActualState, type TeardownBlock } from './actual-state.ts';
import { DesiredState } from './desired-state.ts';
import { OperationExecutor } from './operation-executor.ts';
import type { VolumePlugin } from './plugin.ts';
import { findVolumes, listPodDirectories, removePodDirectory } from './pod-directory.ts';
import { populate, volumesOf, type PodDemand } from './populator.ts';
import { reconcile, type ReconcilerDeps, type VolumeNews } from './reconciler.ts';

export interface VolumeManagerDeps {
  readonly plugins: readonly VolumePlugin[];
  readonly paths: PodPaths;
  readonly clock: Clock;
  readonly log: Log;
  /** Every pod that the agent looks after. */
  readonly demands: () => readonly PodDemand[];
  /** The gate of every teardown: true only when it is known that no process of the pod is alive. */
  readonly mayTearDown: (podUid: string) => boolean;
  readonly onNews: (news: VolumeNews) => void;
  /** The last of a pod's volumes and its directory are gone. */
  readonly onDirectoryGone: (podUid: string) => void;
}

export interface PodVolumes {
  readonly ready: boolean;
  /** Host path of each volume that is ready. */
  readonly paths: ReadonlyMap<string, string>;
  readonly waitingFor: readonly string[];
}

export type PodTeardown =
  | { readonly kind: 'gone' }
  | { readonly kind: 'pending' }
  /** Every volume that is left has said what is in its way. */
  | { readonly kind: 'blocked'; readonly volumes: readonly BlockedVolume[] };

export interface BlockedVolume extends TeardownBlock {
  readonly podUid: string;
  readonly name: string;
}

/** Pause between two passes (BEHAVIOUR.md C3). */
const LOOP_SLEEP_MS = 1_000;

/** Populator, reconciler and executor around the two states: the only thing that makes or deletes volumes. */
export class VolumeManager {
  readonly #deps: VolumeManagerDeps;
  readonly #desired = new DesiredState();
  readonly #actual = new ActualState();
  readonly #executor: OperationExecutor;
  readonly #reconcilerDeps: ReconcilerDeps;
  readonly #leftovers = new Set<string>();
  /** Directories with something in them that we did not put there. Looked at again, but nobody waits for them. */
  readonly #unremovable = new Set<string>();
  #timer: Timer | undefined;
  #passing = false;
  #again = false;
  #stopped = true;

  constructor(deps: VolumeManagerDeps) {
    this.#deps = deps;
    this.#executor = new OperationExecutor({ clock: deps.clock, log: deps.log, onDone: () => this.poke() });
    this.#reconcilerDeps = { ...deps, desired: this.#desired, actual: this.#actual, executor: this.#executor };
  }

  /**
   * Looks what earlier agents left on disk and begins. Call it when all pods are known, never before: a volume of a pod that
   * nobody has told of yet would be torn down (BEHAVIOUR.md 6).
   */
  async start(): Promise<void> {
    for (const uid of await listPodDirectories(this.#deps.paths)) await this.takeOver(uid);
    this.#stopped = false;
    this.poke();
  }

  /** Looks after a directory that is there without its pod: its volumes are torn down, then it is removed. */
  async takeOver(podUid: string): Promise<void> {
    for (const found of await findVolumes(this.#deps.paths, podUid)) {
      if (this.#actual.get(podUid, found.name) !== undefined) continue;
      this.#actual.set({ ...found, state: { kind: 'uncertain' } });
    }
    this.#leftovers.add(podUid);
    this.#unremovable.delete(podUid);
    this.poke();
  }

  /** Mounts stay: a restart of the agent is no end of any pod. */
  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#executor.stop(canceled('the agent stops'));
  }

  /** Makes the next pass come now. Passes never overlap. */
  poke(): void {
    if (this.#stopped) return;
    if (this.#passing) {
      this.#again = true;
      return;
    }
    this.#timer?.cancel();
    void this.#pass();
  }

  async #pass(): Promise<void> {
    this.#passing = true;
    try {
      populate(this.#desired, this.#deps.demands(), this.#deps.plugins);
      reconcile(this.#reconcilerDeps);
      await this.#removeEmptyPods();
    } catch (error) {
      this.#deps.log.error({ error: messageOf(error) }, 'volume reconciler: the pass failed');
    }
    this.#passing = false;
    if (this.#stopped) return;
    if (this.#again) {
      this.#again = false;
      this.poke();
      return;
    }
    const sleepMs = Math.min(LOOP_SLEEP_MS, this.#executor.nextRetryMs() ?? LOOP_SLEEP_MS);
    this.#timer = this.#deps.clock.after(Math.max(sleepMs, 10), () => this.poke());
  }

  async #removeEmptyPods(): Promise<void> {
    for (const uid of this.#leftovers) {
      if (this.#desired.hasPod(uid) || this.#actual.ofPod(uid).length > 0 || !this.#deps.mayTearDown(uid)) continue;
      if (await removePodDirectory(this.#deps.paths, uid)) {
        this.#leftovers.delete(uid);
        this.#unremovable.delete(uid);
        this.#deps.onDirectoryGone(uid);
      } else if (!this.#unremovable.has(uid)) {
        this.#unremovable.add(uid);
        this.#deps.log.warn({ podUid: uid }, 'the pod directory has files in it that are not ours and stays');
        this.#deps.onDirectoryGone(uid);
      }
    }
  }

  /** The pod is going to have a directory: it is looked after from now on. */
  adopt(podUid: string): void {
    this.#leftovers.add(podUid);
  }

  /** Whether a pod's containers can be started, and where its volumes are. */
  ofPod(pod: NodePod): PodVolumes {
    const paths = new Map<string, string>();
    const waitingFor: string[] = [];
    for (const { volume } of volumesOf(pod, this.#deps.plugins)) {
      const actual = this.#actual.get(pod.uid, volume.name);
      if (actual?.state.kind === 'mounted') paths.set(volume.name, actual.state.path);
      else waitingFor.push(actual?.setUpError === undefined ? volume.name : `${volume.name}: ${actual.setUpError}`);
    }
    return { ready: waitingFor.length === 0, paths, waitingFor };
  }

  /** How far the teardown of a pod's volumes is, for who wants to let go of the pod. */
  teardownOf(podUid: string): PodTeardown {
    if (this.#desired.hasPod(podUid)) return { kind: 'pending' };
    const left = this.#actual.ofPod(podUid);
    const directory = this.#leftovers.has(podUid) && !this.#unremovable.has(podUid);
    if (left.length === 0) return directory ? { kind: 'pending' } : { kind: 'gone' };
    const blocked = blockedOf(left);
    return blocked.length === left.length ? { kind: 'blocked', volumes: blocked } : { kind: 'pending' };
  }

  /** Every volume whose teardown something is in the way of, whether its pod is still in the API or not. */
  blocked(): readonly BlockedVolume[] {
    return blockedOf(this.#actual.all());
  }
}

function blockedOf(volumes: readonly { podUid: string; name: string; blocked?: TeardownBlock }[]): BlockedVolume[] {
  return volumes.flatMap(({ podUid, name, blocked }) => (blocked === undefined ? [] : [{ podUid, name, ...blocked }]));
}
