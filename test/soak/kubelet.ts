import { setTimeout as sleep } from 'node:timers/promises';
import type { CriConnection } from '../../src/cri/client.ts';
import {
  ContainerState,
  type ContainerConfig,
  type ContainerStatus,
  type PodSandboxConfig,
} from '../../src/cri/gen/api.ts';
import type { Op } from '../../src/lib/abort.ts';
import { isKind, kindOf, messageOf } from '../../src/lib/errors.ts';
import { silentLog } from '../../src/lib/log.ts';
import type { KilledDaemon } from './killed-daemon.ts';
import type { SoakTally } from './tally.ts';

/** Longer than any call here takes on a machine that emulates another one. */
const CALL_TIMEOUT_MS = 300_000;
/** So long a daemon that answers may call itself unavailable while it recovers. */
const UNAVAILABLE_MS = 60_000;
const LOOK_AGAIN_MS = 100;

/** A call that was refused, or an answer that is not as it has to be. */
export class Violation extends Error {
  override readonly name = 'Violation';
}

/**
 * Calls a daemon that is killed under it, as kubelet does: what broke off is called again with the same names, and has to
 * work then.
 */
export class Kubelet {
  readonly #daemon: KilledDaemon;
  readonly #tally: SoakTally;

  constructor(daemon: KilledDaemon, tally: SoakTally) {
    this.#daemon = daemon;
    this.#tally = tally;
  }

  async runPodSandbox(config: PodSandboxConfig): Promise<string> {
    const { podSandboxId } = await this.#call('RunPodSandbox', ({ runtime }, op) =>
      runtime.runPodSandbox(op, { config, runtimeHandler: '' }),
    );
    return podSandboxId;
  }

  async createContainer(
    podSandboxId: string,
    sandboxConfig: PodSandboxConfig,
    config: ContainerConfig,
  ): Promise<string> {
    const { containerId } = await this.#call('CreateContainer', ({ runtime }, op) =>
      runtime.createContainer(op, { podSandboxId, config, sandboxConfig }),
    );
    return containerId;
  }

  /**
   * Resolves with false when the start was cut short and undone: kubelet then makes the container anew, with the next
   * attempt. A call that broke off is not simply repeated: kubelet looks at the state first.
   */
  async startContainer(containerId: string): Promise<boolean> {
    for (;;) {
      const { life, cri } = await this.#daemon.serving();
      this.#daemon.noteChange();
      try {
        await cri.runtime.startContainer(this.#op(), { containerId });
        return true;
      } catch (error) {
        if (this.#daemon.life === life && !isKind(error, 'Unavailable', 'FailedPrecondition')) {
          throw refused('StartContainer', error, false);
        }
        this.#tally.broken++;
        const status = await this.status(containerId);
        if (status.state === ContainerState.CONTAINER_RUNNING) return true;
        if (status.state === ContainerState.CONTAINER_EXITED) {
          if (status.reason !== 'StartError') return true;
          if (!/cut short/.test(status.message)) {
            throw new Violation(`a start that broke off left: ${status.reason} ${status.message}`);
          }
          this.#tally.startsCutShort++;
          return false;
        }
        // CREATED: nothing has run yet, as if it had never been called.
        await sleep(LOOK_AGAIN_MS);
      }
    }
  }

  async stopContainer(containerId: string, graceSeconds: number): Promise<void> {
    await this.#call('StopContainer', ({ runtime }, op) =>
      runtime.stopContainer(op, { containerId, timeout: BigInt(graceSeconds) }),
    );
  }

  async removeContainer(containerId: string): Promise<void> {
    await this.#call('RemoveContainer', ({ runtime }, op) => runtime.removeContainer(op, { containerId }));
  }

  async endPod(podSandboxId: string): Promise<void> {
    await this.#call('StopPodSandbox', ({ runtime }, op) => runtime.stopPodSandbox(op, { podSandboxId }));
    await this.#call('RemovePodSandbox', ({ runtime }, op) => runtime.removePodSandbox(op, { podSandboxId }));
  }

  async status(containerId: string): Promise<ContainerStatus> {
    const { status } = await this.#call('ContainerStatus', ({ runtime }, op) =>
      runtime.containerStatus(op, { containerId, verbose: false }),
    );
    if (status === undefined) throw new Violation(`no status of ${containerId}`);
    return status;
  }

  /** Looks until the container has ended, or `given up`. A state that is not known would make kubelet kill it. */
  async ended(containerId: string): Promise<ContainerStatus> {
    const endMs = performance.now() + CALL_TIMEOUT_MS;
    for (;;) {
      const status = await this.status(containerId);
      if (status.state === ContainerState.CONTAINER_EXITED) return status;
      if (status.state !== ContainerState.CONTAINER_RUNNING) {
        throw new Violation(`a container that runs is shown as ${status.state}: ${status.reason} ${status.message}`);
      }
      if (performance.now() > endMs) throw new Violation('its end is not seen');
      await sleep(LOOK_AGAIN_MS);
    }
  }

  /** What is listed, in words. */
  async left(podSandboxId?: string): Promise<string[]> {
    const { containers } = await this.#call('ListContainers', ({ runtime }, op) =>
      runtime.listContainers(op, { filter: undefined }),
    );
    const { items } = await this.#call('ListPodSandbox', ({ runtime }, op) =>
      runtime.listPodSandbox(op, { filter: undefined }),
    );
    const wanted = (id: string): boolean => podSandboxId === undefined || id === podSandboxId;
    return [
      ...containers.filter((one) => wanted(one.podSandboxId)).map((one) => `container ${one.metadata?.name ?? one.id}`),
      ...items.filter((one) => wanted(one.id)).map((one) => `sandbox ${one.metadata?.name ?? one.id}`),
    ];
  }

  #op(): Op {
    return { signal: AbortSignal.timeout(CALL_TIMEOUT_MS), log: silentLog };
  }

  async #call<T>(what: string, call: (cri: CriConnection, op: Op) => Promise<T>): Promise<T> {
    let repeated = false;
    let unavailableSinceMs: number | undefined;
    for (;;) {
      const { cri, life } = await this.#daemon.serving();
      const beganMs = performance.now();
      if (!/Status|List/.test(what)) this.#daemon.noteChange();
      try {
        const answer = await call(cri, this.#op());
        this.#tally.took(what, repeated, performance.now() - beganMs);
        return answer;
      } catch (error) {
        if (this.#daemon.life !== life) {
          repeated = true;
          unavailableSinceMs = undefined;
          this.#tally.broken++;
        } else if (isKind(error, 'Unavailable')) {
          unavailableSinceMs ??= performance.now();
          if (performance.now() - unavailableSinceMs > UNAVAILABLE_MS) throw refused(what, error, repeated);
          await sleep(LOOK_AGAIN_MS);
        } else throw refused(what, error, repeated);
      }
    }
  }
}

function refused(what: string, error: unknown, repeated: boolean): Violation {
  const how = repeated ? `${what}, repeated after a kill,` : what;
  return new Violation(`${how} failed: ${kindOf(error)}: ${messageOf(error)}`, { cause: error });
}
