import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  ContainerState,
  type ContainerConfig,
  type ContainerStatus,
  type PodSandboxConfig,
} from '../../../src/cri/gen/api.ts';
import { inspectorOf } from '../../../src/cri/inspector/inspector-service.ts';
import type { Inspector } from '../../../src/cri/inspector/inspector.ts';
import type { RuntimeService } from '../../../src/cri/services.ts';
import { TempRoot } from '../../support/temp-root.ts';
import { DaemonProcess, type DaemonOptions } from '../runtime/daemon-process.ts';
import { op, openWithImage } from '../runtime/runtime-fixture.ts';

const PATIENCE_MS = 300_000;

/** A runtime in a process of its own with a busybox image, asked over its socket as kubelet asks: so what is measured is what a client has. */
export class CriDaemon implements AsyncDisposable {
  readonly root: TempRoot;
  readonly #daemon: DaemonProcess;

  private constructor(root: TempRoot, daemon: DaemonProcess) {
    this.root = root;
    this.#daemon = daemon;
  }

  static async start(
    optionsFor: (root: TempRoot) => DaemonOptions | Promise<DaemonOptions> = () => ({}),
  ): Promise<CriDaemon> {
    const root = await TempRoot.make();
    try {
      const options = await optionsFor(root);
      await (await openWithImage(root, options)).close();
      const daemon = new DaemonProcess(root, options);
      await daemon.start();
      return new CriDaemon(root, daemon);
    } catch (error) {
      await root[Symbol.asyncDispose]();
      throw error;
    }
  }

  get cri(): RuntimeService {
    return this.#daemon.cri.runtime;
  }

  get inspector(): Inspector {
    return inspectorOf(this.#daemon.cri);
  }

  get pid(): number {
    return this.#daemon.pid;
  }

  async runSandbox(config: PodSandboxConfig): Promise<string> {
    return (await this.cri.runPodSandbox(op, { config, runtimeHandler: '' })).podSandboxId;
  }

  async stopSandbox(podSandboxId: string): Promise<void> {
    await this.cri.stopPodSandbox(op, { podSandboxId });
  }

  async endPod(podSandboxId: string): Promise<void> {
    await this.stopSandbox(podSandboxId);
    await this.cri.removePodSandbox(op, { podSandboxId });
  }

  async run(podSandboxId: string, sandboxConfig: PodSandboxConfig, config: ContainerConfig): Promise<string> {
    const { containerId } = await this.cri.createContainer(op, { podSandboxId, config, sandboxConfig });
    await this.cri.startContainer(op, { containerId });
    return containerId;
  }

  async remove(containerId: string): Promise<void> {
    await this.cri.removeContainer(op, { containerId });
  }

  async stop(containerId: string, seconds: number): Promise<void> {
    await this.cri.stopContainer(op, { containerId, timeout: BigInt(seconds) });
  }

  async status(containerId: string): Promise<ContainerStatus> {
    const { status } = await this.cri.containerStatus(op, { containerId, verbose: false });
    assert.ok(status);
    return status;
  }

  /** Host pid of its first process. */
  async pidOf(containerId: string): Promise<number> {
    const { info } = await this.cri.containerStatus(op, { containerId, verbose: true });
    return (JSON.parse(info['info'] ?? '{}') as { pid: number }).pid;
  }

  /** Asks every few milliseconds. */
  async exited(containerId: string, everyMs = 2): Promise<ContainerStatus> {
    const endMs = performance.now() + PATIENCE_MS;
    for (;;) {
      const status = await this.status(containerId);
      if (status.state === ContainerState.CONTAINER_EXITED) return status;
      if (performance.now() > endMs) throw new Error(`container ${containerId} stays ${String(status.state)}`);
      await sleep(everyMs);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#daemon[Symbol.asyncDispose]();
    await this.root[Symbol.asyncDispose]();
  }
}

/** How long it takes, in milliseconds. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const beganMs = performance.now();
  await work();
  return performance.now() - beganMs;
}
