import { messageOf } from '../../lib/errors.ts';
import type { PendingWork } from '../../kube/gantry-extensions.ts';
import type { RuntimeSnapshot } from '../pleg/relist.ts';
import { podKey, type NodePod } from '../pods/node-pod.ts';
import { rebuildPod } from '../sources/orphan.ts';
import type { PodDemand } from '../volumes/populator.ts';
import type { WorkerDeps } from './deps.ts';
import { PodWorker } from './pod-worker.ts';

export interface WorkersDeps extends WorkerDeps {
  /** The PLEG's last look. */
  readonly snapshot: () => RuntimeSnapshot | undefined;
}

/** All pods that this machine has to do with, one worker each, by uid. */
export class Workers {
  readonly #deps: WorkersDeps;
  readonly #workers = new Map<string, PodWorker>();
  readonly #rebuilding = new Set<string>();
  #ready = false;
  #stopped = false;

  constructor(deps: WorkersDeps) {
    this.#deps = deps;
  }

  /** A pod of the API, new or changed. */
  set(pod: NodePod): void {
    if (this.#stopped) return;
    let worker = this.#workers.get(pod.uid);
    if (worker === undefined) {
      worker = this.#add(pod);
      this.#tellSeen(pod);
    }
    worker.update(pod);
  }

  #tellSeen(pod: NodePod): void {
    // With a start time an earlier agent has told of it already.
    const isNew = pod.object.status?.startTime === undefined && pod.deletion === undefined;
    const { nodeName } = this.#deps.node;
    this.#deps.story.tell({
      pod,
      what: 'pod.seen',
      message: 'the pod is here',
      ...(isNew ? {} : { why: pod.deletion === undefined ? 'found by a new agent process' : 'it is being deleted' }),
      ...(isNew
        ? {
            event: {
              type: 'Normal',
              reason: 'Scheduled',
              message: `Successfully assigned ${podKey(pod)} to ${nodeName}`,
            },
          }
        : {}),
    });
  }

  /** The API has the pod no longer. */
  gone(uid: string, last: NodePod): void {
    const worker = this.#workers.get(uid);
    if (worker === undefined) return;
    if (worker.phase === 'finished') this.#workers.delete(uid);
    else worker.remove(last);
  }

  wake(uid: string): void {
    this.#workers.get(uid)?.wake();
  }

  /** All pods of the API have been told of: what else runs has no owner. */
  sourcesReady(): void {
    this.#ready = true;
    this.runtimeChanged([...(this.#deps.snapshot()?.pods.keys() ?? [])]);
  }

  /** Something of these pods has changed in the runtime. */
  runtimeChanged(uids: readonly string[]): void {
    for (const uid of uids) {
      const worker = this.#workers.get(uid);
      if (worker !== undefined && worker.phase !== 'finished') worker.wake();
      else if (this.#ready) void this.#adoptOrphan(uid);
    }
  }

  stop(): void {
    this.#stopped = true;
    for (const worker of this.#workers.values()) worker.stop();
  }

  podOf(uid: string): NodePod | undefined {
    return this.#workers.get(uid)?.pod;
  }

  find(namespace: string, name: string): PodWorker | undefined {
    const found = [...this.#workers.values()].filter(({ pod }) => pod.namespace === namespace && pod.name === name);
    return found.find(({ isOver }) => !isOver) ?? found.at(-1);
  }

  /** For the volume manager. */
  demands(): PodDemand[] {
    return [...this.#workers.values()].map((worker) => ({ pod: worker.pod, wantsVolumes: worker.wantsVolumes }));
  }

  /**
   * The gate of teardowns (FAILURES.md row 46). A pod with a worker: when that has proved that nothing of it is alive. A pod
   * that nobody knows: when all pods of the API are known and the runtime's list has nothing alive of it.
   */
  mayTearDown(uid: string): boolean {
    const worker = this.#workers.get(uid);
    if (worker !== undefined) return worker.isOver;
    const snapshot = this.#deps.snapshot();
    return this.#ready && snapshot !== undefined && snapshot.pods.get(uid)?.alive !== true;
  }

  pending(uid: string): readonly PendingWork[] {
    return this.#workers.get(uid)?.pending() ?? [];
  }

  #add(pod: NodePod): PodWorker {
    const worker = new PodWorker(this.#deps, pod, {
      onFinished: (finished) => {
        // A deleted pod's worker stays until the API's own word: a late change of its object must not begin anew.
        if (finished.cause !== 'deleted') this.#workers.delete(finished.uid);
      },
    });
    this.#workers.set(pod.uid, worker);
    return worker;
  }

  async #adoptOrphan(uid: string): Promise<void> {
    const found = this.#deps.snapshot()?.pods.get(uid);
    if (found === undefined || uid === '' || this.#rebuilding.has(uid) || this.#stopped) return;
    this.#rebuilding.add(uid);
    try {
      const pod = await rebuildPod(this.#deps.op, this.#deps.runtime, this.#deps.agentId, found);
      const known = this.#workers.get(uid);
      if (known !== undefined && known.phase !== 'finished') return;
      this.#add(pod).end('orphaned');
    } catch (error) {
      this.#deps.op.log.warn({ podUid: uid, error: messageOf(error) }, 'an orphaned pod cannot be read');
    } finally {
      this.#rebuilding.delete(uid);
    }
  }
}
