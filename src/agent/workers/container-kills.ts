import { messageOf } from '../../lib/errors.ts';
import type { PodRuntimeState } from '../pleg/pod-runtime-state.ts';
import { DEFAULT_GRACE_SECONDS, type NodePod } from '../pods/node-pod.ts';
import type { ContainerKill } from '../sync/compute-pod-actions.ts';
import { Deadline } from '../terminate/deadline.ts';
import { killContainer } from '../terminate/kill-container.ts';
import type { WorkerDeps } from './deps.ts';

/** Ends single containers of a pod that goes on, beside its worker and each once. */
export class ContainerKills {
  readonly #deps: WorkerDeps;
  readonly #onDone: () => void;
  readonly #running = new Set<string>();

  constructor(deps: WorkerDeps, onDone: () => void) {
    this.#deps = deps;
    this.#onDone = onDone;
  }

  /** With the pod's grace period. A container that is being ended already is left to that. */
  begin(pod: NodePod, kill: ContainerKill, state: PodRuntimeState): void {
    const container = state.containers.find(({ id }) => id === kill.id);
    if (container === undefined || this.#running.has(kill.id)) return;
    this.#running.add(kill.id);
    const deps = this.#deps;
    const graceMs = (pod.spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS) * 1000;
    const deadline = new Deadline(deps.clock, deps.clock.boottimeMs() + graceMs);
    const target = {
      pod,
      container,
      lifecycle: pod.spec.containers.find(({ name }) => name === kill.name)?.lifecycle,
      why: kill.why,
      deadline,
      hookDone: false,
      onHookDone: () => Promise.resolve(),
    };
    void killContainer(deps.op, deps, target)
      .catch((error: unknown) => {
        const fields = { podUid: pod.uid, containerId: kill.id, error: messageOf(error) };
        deps.op.log.warn(fields, 'container could not be stopped');
      })
      .finally(() => {
        deadline.close();
        this.#running.delete(kill.id);
        this.#onDone();
      });
  }
}
