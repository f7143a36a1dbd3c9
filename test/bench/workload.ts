import { join } from 'node:path';
import {
  ContainerConfig,
  ImageSpec,
  NamespaceMode,
  PodSandboxConfig,
  PullImageRequest,
  RemoveImageRequest,
} from '../../src/cri/gen/api.ts';
import { op } from '../support/gantryd.ts';
import type { RowKey } from './rows.ts';
import type { Samples } from './samples.ts';
import type { Side } from './side.ts';

/** Which image containers are made of, and what runs in them. */
export interface BenchImage {
  readonly name: string;
  readonly command: readonly string[];
}

interface Pod {
  readonly sandboxId: string;
  readonly containerId: string;
}

/** A status is over before the clock has moved on: several, each counted. */
const STATUS_CALLS = 5;
const LIST_CALLS = 20;
const STOP_TIMEOUT_S = 30n;
const MS_PER_S = 1000;

/** The same calls in the same order, one after the other, whoever answers them. */
export class Workload {
  readonly #side: Side;
  readonly #image: BenchImage;
  #count = 0;

  constructor(side: Side, image: BenchImage) {
    this.#side = side;
    this.#image = image;
  }

  /** One pod's life. */
  async round(samples: Samples): Promise<void> {
    const { runtime } = this.#side.cri;
    const config = this.#sandboxConfig(false);
    const podSandboxId = await this.#timed(samples, 'run-sandbox', async () => {
      return (await runtime.runPodSandbox(op, { config, runtimeHandler: '' })).podSandboxId;
    });
    const containerId = await this.#timed(samples, 'create-start', () => this.#startContainer(podSandboxId, config));
    for (let i = 0; i < STATUS_CALLS; i++) {
      await this.#timed(samples, 'container-status', () =>
        runtime.containerStatus(op, { containerId, verbose: false }),
      );
    }
    const { exitCode } = await this.#timed(samples, 'exec', () =>
      runtime.execSync(op, { containerId, cmd: ['/bin/true'], timeout: 10n }),
    );
    if (exitCode !== 0) throw new Error(`ExecSync(true) ended with ${String(exitCode)}`);
    await this.#timed(samples, 'stop-container', () =>
      runtime.stopContainer(op, { containerId, timeout: STOP_TIMEOUT_S }),
    );
    await runtime.removeContainer(op, { containerId });
    await this.#timed(samples, 'stop-remove-sandbox', () => this.#end(podSandboxId));
  }

  /** A sandbox of the host's network, and nothing in it. */
  async hostNetworkRound(samples: Samples): Promise<void> {
    const config = this.#sandboxConfig(true);
    const podSandboxId = await this.#timed(samples, 'run-sandbox-host-network', async () => {
      return (await this.#side.cri.runtime.runPodSandbox(op, { config, runtimeHandler: '' })).podSandboxId;
    });
    await this.#end(podSandboxId);
  }

  async pullRound(samples: Samples, name: string): Promise<void> {
    const { image } = this.#side.cri;
    const spec = ImageSpec.fromPartial({ image: name });
    await this.#timed(samples, 'pull', () => image.pullImage(op, PullImageRequest.fromPartial({ image: spec })));
    await image.removeImage(op, RemoveImageRequest.fromPartial({ image: spec }));
  }

  /** Many pods, and what a daemon with them is like; `restarts` times it is ended and started again. */
  async many(samples: Samples, count: number, restarts: number): Promise<void> {
    const pods: Pod[] = [];
    await this.#timed(samples, 'fill-50', async () => {
      for (let i = 0; i < count; i++) pods.push(await this.#pod());
    });
    for (let i = 0; i < LIST_CALLS; i++) {
      await this.#timed(samples, 'list-50', () => this.#side.cri.runtime.listContainers(op, { filter: undefined }));
    }
    const { daemon, monitors } = await this.#side.memory();
    samples.add('memory-50', this.#side.party, daemon + monitors);
    for (let i = 0; i < restarts; i++) {
      await this.#side.end();
      samples.add('daemon-start', this.#side.party, await this.#side.startUntilRunning(count));
    }
    await this.#timed(samples, 'remove-50', async () => {
      for (const { sandboxId } of pods) await this.#end(sandboxId);
    });
  }

  /** The image that all are made of. */
  async prepare(): Promise<void> {
    const image = ImageSpec.fromPartial({ image: this.#image.name });
    await this.#side.cri.image.pullImage(op, PullImageRequest.fromPartial({ image }));
  }

  async #pod(): Promise<Pod> {
    const config = this.#sandboxConfig(false);
    const { podSandboxId: sandboxId } = await this.#side.cri.runtime.runPodSandbox(op, { config, runtimeHandler: '' });
    return { sandboxId, containerId: await this.#startContainer(sandboxId, config) };
  }

  async #startContainer(podSandboxId: string, sandboxConfig: PodSandboxConfig): Promise<string> {
    const { runtime } = this.#side.cri;
    const config = ContainerConfig.fromPartial({
      metadata: { name: 'main', attempt: 0 },
      image: ImageSpec.fromPartial({ image: this.#image.name }),
      command: [...this.#image.command],
      logPath: 'main.log',
      linux: {},
    });
    const { containerId } = await runtime.createContainer(op, { podSandboxId, config, sandboxConfig });
    await runtime.startContainer(op, { containerId });
    return containerId;
  }

  async #end(podSandboxId: string): Promise<void> {
    await this.#side.cri.runtime.stopPodSandbox(op, { podSandboxId });
    await this.#side.cri.runtime.removePodSandbox(op, { podSandboxId });
  }

  #sandboxConfig(hostNetwork: boolean): PodSandboxConfig {
    const { root } = this.#side;
    const name = `bench-${String(this.#count++)}`;
    const network = hostNetwork ? NamespaceMode.NODE : NamespaceMode.POD;
    return PodSandboxConfig.fromPartial({
      metadata: { name, namespace: 'bench', uid: `uid-${name}`, attempt: 0 },
      logDirectory: join(root.logRoot, name),
      linux: {
        cgroupParent: this.#side.cgroupParent,
        securityContext: { namespaceOptions: { network, pid: NamespaceMode.CONTAINER } },
      },
    });
  }

  async #timed<T>(samples: Samples, row: RowKey, work: () => Promise<T>): Promise<T> {
    const began = performance.now();
    const result = await work();
    const ms = performance.now() - began;
    samples.add(row, this.#side.party, row === 'fill-50' || row === 'remove-50' ? ms / MS_PER_S : ms);
    return result;
  }
}
