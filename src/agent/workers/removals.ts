import type { Op } from '../../lib/abort.ts';
import { messageOf } from '../../lib/errors.ts';
import type { WorkerDeps } from './deps.ts';

/**
 * Takes away what is left of a pod's earlier runs, beside its worker and each once: a removal that hangs keeps nothing from being started.
 * One that fails is asked for again by the next pass.
 */
export class Removals {
  readonly #deps: WorkerDeps;
  readonly #podUid: string;
  readonly #onDone: () => void;
  readonly #running = new Set<string>();

  constructor(deps: WorkerDeps, podUid: string, onDone: () => void) {
    this.#deps = deps;
    this.#podUid = podUid;
    this.#onDone = onDone;
  }

  container(containerId: string): void {
    void this.#begin('RemoveContainer', containerId, (op) => this.#deps.runtime.removeContainer(op, { containerId }));
  }

  sandbox(podSandboxId: string): void {
    const remove = (op: Op): Promise<unknown> => this.#deps.runtime.removePodSandbox(op, { podSandboxId });
    void this.#begin('RemovePodSandbox', podSandboxId, remove);
  }

  async #begin(what: string, id: string, remove: (op: Op) => Promise<unknown>): Promise<void> {
    if (this.#running.has(id)) return;
    this.#running.add(id);
    const { op } = this.#deps;
    try {
      await remove(op);
      this.#running.delete(id);
      this.#onDone();
    } catch (error) {
      this.#running.delete(id);
      if (op.signal.aborted) return;
      op.log.warn({ podUid: this.#podUid, what, error: messageOf(error) }, 'clean-up of an old run failed');
    }
  }
}
