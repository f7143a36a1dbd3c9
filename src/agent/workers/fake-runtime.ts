import type { Op } from '../../lib/abort.ts';
import { raceSignal } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { notFound, notImplemented } from '../../lib/errors.ts';
import {
  Container,
  ContainerState,
  ContainerStatus,
  ImageStatusResponse,
  PodSandbox,
  PodSandboxState,
  PodSandboxStatus,
  RuntimeHandler,
  type ContainerConfig,
  type PodSandboxConfig,
  type RuntimeHandlerFeatures,
} from '../../cri/gen/api.ts';
import type { ImageService, RuntimeService } from '../../cri/services.ts';

export interface FakeContainer {
  readonly id: string;
  readonly sandboxId: string;
  readonly config: ContainerConfig;
  state: ContainerState;
  startedAtMs: number;
  finishedAtMs: number;
  exitCode: number;
  readonly createdAtMs: number;
  readonly ended: PromiseWithResolvers<true>;
}

interface FakeSandbox {
  readonly id: string;
  readonly config: PodSandboxConfig;
  ready: boolean;
  readonly createdAtMs: number;
}

type Call = keyof RuntimeService | keyof ImageService;

/** A CRI runtime in memory, on the test's clock. Containers do nothing until a test ends them or somebody stops them. */
export class FakeRuntime {
  readonly sandboxes = new Map<string, FakeSandbox>();
  readonly containers = new Map<string, FakeContainer>();
  /** Present without a pull. */
  readonly images = new Set<string>();
  /** What PullImage knows. */
  readonly pullable = new Set<string>();
  readonly calls: string[] = [];
  /** The next call of that kind fails so. */
  readonly failNext = new Map<Call, Error[]>();
  /** Calls of that kind come back when it is fulfilled. */
  readonly held = new Map<Call, Promise<unknown>>();
  /** Names of containers that do not end by a stop signal. */
  readonly deafToTerm = new Set<string>();
  /** Names of containers that not even SIGKILL ends, until the test ends them. */
  readonly unkillable = new Set<string>();
  /** What ExecSync does, by container name. */
  readonly onExec = new Map<string, (op: Op) => Promise<number>>();
  /** RunPodSandbox takes so long, and takes no notice of its caller's going away. */
  slowSandboxMs = 0;
  /** RunPodSandbox fails with it, and leaves a sandbox behind that is not ready. */
  sandboxProblem: Error | undefined;
  /** Of its default handler. */
  features: Partial<RuntimeHandlerFeatures> = {};
  /** A condition of the runtime that is not met. */
  problem: string | undefined;
  readonly runtime: RuntimeService;
  readonly image: ImageService;
  readonly #clock: Clock;
  #ids = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.runtime = this.#runtimeService();
    this.image = this.#imageService();
  }

  /** The container's process ends by itself. */
  exit(name: string, exitCode: number): void {
    const container = [...this.containers.values()].find(
      (one) => one.config.metadata?.name === name && one.state === ContainerState.CONTAINER_RUNNING,
    );
    if (container === undefined) throw new Error(`no container ${name} runs`);
    this.#end(container, exitCode);
  }

  running(): string[] {
    return [...this.containers.values()]
      .filter(({ state }) => state === ContainerState.CONTAINER_RUNNING)
      .map(({ config }) => `${config.metadata?.name ?? ''}/${String(config.metadata?.attempt)}`);
  }

  #end(container: FakeContainer, exitCode: number): void {
    container.state = ContainerState.CONTAINER_EXITED;
    container.exitCode = exitCode;
    container.finishedAtMs = this.#clock.wallMs();
    container.ended.resolve(true);
  }

  #called(call: Call, what: string): void {
    this.calls.push(`${call} ${what}`);
    const error = this.failNext.get(call)?.shift();
    if (error !== undefined) throw error;
  }

  #container(id: string): FakeContainer {
    const container = this.containers.get(id);
    if (container === undefined) throw notFound(`container ${id} not found`);
    return container;
  }

  #kill(container: FakeContainer): void {
    if (container.state !== ContainerState.CONTAINER_RUNNING) return;
    if (!this.unkillable.has(container.config.metadata?.name ?? '')) this.#end(container, 137);
  }

  #runtimeService(): RuntimeService {
    const clock = this.#clock;
    const absent = (): Promise<never> => Promise.reject(notImplemented('not in the fake'));
    return {
      version: () =>
        Promise.resolve({ version: '0.1.0', runtimeName: 'fake', runtimeVersion: '1', runtimeApiVersion: 'v1' }),
      status: () =>
        Promise.resolve({
          status: {
            conditions:
              this.problem === undefined ? [] : [{ type: this.problem, status: false, reason: 'Test', message: '' }],
          },
          info: {},
          runtimeHandlers: [RuntimeHandler.fromPartial({ name: '', features: this.features })],
          features: undefined,
        }),
      runPodSandbox: async (_op, { config }) => {
        this.#called('runPodSandbox', config?.metadata?.name ?? '');
        if (config === undefined) throw notFound('no config');
        if (this.slowSandboxMs > 0) await clock.sleep(this.slowSandboxMs);
        const id = `sandbox-${String(++this.#ids)}`;
        this.sandboxes.set(id, { id, config, ready: this.sandboxProblem === undefined, createdAtMs: clock.wallMs() });
        if (this.sandboxProblem !== undefined) throw this.sandboxProblem;
        return await Promise.resolve({ podSandboxId: id });
      },
      stopPodSandbox: async (_op, { podSandboxId }) => {
        this.#called('stopPodSandbox', podSandboxId);
        const sandbox = this.sandboxes.get(podSandboxId);
        if (sandbox !== undefined) sandbox.ready = false;
        for (const one of this.containers.values()) {
          if (one.sandboxId === podSandboxId && one.state === ContainerState.CONTAINER_RUNNING) this.#kill(one);
        }
        await this.held.get('stopPodSandbox');
        return {};
      },
      removePodSandbox: async (_op, { podSandboxId }) => {
        this.#called('removePodSandbox', podSandboxId);
        this.sandboxes.delete(podSandboxId);
        for (const one of this.containers.values()) if (one.sandboxId === podSandboxId) this.containers.delete(one.id);
        return await Promise.resolve({});
      },
      podSandboxStatus: async (_op, { podSandboxId }) => {
        const sandbox = this.sandboxes.get(podSandboxId);
        if (sandbox === undefined) throw notFound(`sandbox ${podSandboxId} not found`);
        const status = PodSandboxStatus.fromPartial({
          ...sandboxFields(sandbox),
          ...(sandbox.ready ? { network: { ip: '10.9.0.2' } } : {}),
        });
        return await Promise.resolve({ status, info: {}, containersStatuses: [], timestamp: 0n });
      },
      listPodSandbox: async (_op, { filter }) => {
        const items = [...this.sandboxes.values()]
          .filter(({ config }) => matches(config.labels, filter?.labelSelector))
          .map((sandbox) => PodSandbox.fromPartial(sandboxFields(sandbox)));
        return await Promise.resolve({ items });
      },
      createContainer: async (_op, { podSandboxId, config }) => {
        this.#called('createContainer', config?.metadata?.name ?? '');
        if (config === undefined) throw notFound('no config');
        const id = `container-${String(++this.#ids)}`;
        this.containers.set(id, {
          id,
          sandboxId: podSandboxId,
          config,
          state: ContainerState.CONTAINER_CREATED,
          startedAtMs: 0,
          finishedAtMs: 0,
          exitCode: 0,
          createdAtMs: clock.wallMs(),
          ended: Promise.withResolvers<true>(),
        });
        return await Promise.resolve({ containerId: id });
      },
      startContainer: async (_op, { containerId }) => {
        const container = this.#container(containerId);
        const name = container.config.metadata?.name ?? '';
        container.startedAtMs = clock.wallMs();
        try {
          this.#called('startContainer', name);
        } catch (error) {
          this.#end(container, 128);
          throw error;
        }
        await this.held.get('startContainer');
        const twin = this.running().some((one) => one.startsWith(`${name}/`));
        if (twin) throw new Error(`${name} would run twice`);
        container.state = ContainerState.CONTAINER_RUNNING;
        return await Promise.resolve({});
      },
      stopContainer: async (op, { containerId, timeout }) => {
        const container = this.#container(containerId);
        const name = container.config.metadata?.name ?? '';
        this.#called('stopContainer', `${name} ${String(timeout)}`);
        if (container.state !== ContainerState.CONTAINER_RUNNING) return {};
        if (timeout > 0n && !this.deafToTerm.has(name)) this.#end(container, 0);
        else if (timeout === 0n) this.#kill(container);
        else {
          clock.after(Number(timeout) * 1000, () => {
            if (container.state === ContainerState.CONTAINER_RUNNING) this.#kill(container);
          });
        }
        await raceSignal(container.ended.promise, op.signal);
        return {};
      },
      removeContainer: async (_op, { containerId }) => {
        this.#called('removeContainer', containerId);
        this.containers.delete(containerId);
        await this.held.get('removeContainer');
        return {};
      },
      listContainers: async (_op, { filter }) => {
        const containers = [...this.containers.values()]
          .filter(({ config }) => matches(config.labels, filter?.labelSelector))
          .map((one) => Container.fromPartial({ ...containerFields(one), podSandboxId: one.sandboxId }));
        return await Promise.resolve({ containers });
      },
      containerStatus: async (_op, { containerId }) => {
        const one = this.#container(containerId);
        const status = ContainerStatus.fromPartial({
          ...containerFields(one),
          startedAt: BigInt(Math.round(one.startedAtMs)) * 1_000_000n,
          finishedAt: BigInt(Math.round(one.finishedAtMs)) * 1_000_000n,
          exitCode: one.exitCode,
        });
        return await Promise.resolve({ status, info: {} });
      },
      execSync: async (op, { containerId }) => {
        const name = this.#container(containerId).config.metadata?.name ?? '';
        this.#called('execSync', name);
        const exitCode = (await this.onExec.get(name)?.(op)) ?? 0;
        return { exitCode, stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) };
      },
      reopenContainerLog: absent,
      runtimeConfig: absent,
    };
  }

  #imageService(): ImageService {
    const absent = (): Promise<never> => Promise.reject(notImplemented('not in the fake'));
    return {
      imageStatus: async (_op, { image }) => {
        const name = image?.image ?? '';
        const id = name.startsWith('sha256:') ? name : `sha256:${name}`;
        const there = this.images.has(id.slice('sha256:'.length));
        return await Promise.resolve(ImageStatusResponse.fromPartial(there ? { image: { id, size: 1 } } : {}));
      },
      pullImage: async (_op, { image }) => {
        const name = image?.image ?? '';
        this.#called('pullImage', name);
        if (!this.pullable.has(name)) throw notFound(`${name}: not found`);
        this.images.add(name);
        return await Promise.resolve({ imageRef: `sha256:${name}` });
      },
      listImages: absent,
      removeImage: absent,
      imageFsInfo: absent,
    };
  }
}

function matches(labels: Readonly<Record<string, string>>, wanted: Readonly<Record<string, string>> = {}): boolean {
  return Object.entries(wanted).every(([key, value]) => labels[key] === value);
}

function sandboxFields(sandbox: FakeSandbox): Parameters<typeof PodSandbox.fromPartial>[0] {
  const { id, config, ready, createdAtMs } = sandbox;
  return {
    id,
    metadata: config.metadata,
    labels: config.labels,
    annotations: config.annotations,
    state: ready ? PodSandboxState.SANDBOX_READY : PodSandboxState.SANDBOX_NOTREADY,
    createdAt: BigInt(Math.round(createdAtMs)) * 1_000_000n,
  };
}

function containerFields(one: FakeContainer): Parameters<typeof ContainerStatus.fromPartial>[0] {
  return {
    id: one.id,
    metadata: one.config.metadata,
    image: one.config.image,
    imageRef: one.config.image?.image ?? '',
    labels: one.config.labels,
    annotations: one.config.annotations,
    state: one.state,
    createdAt: BigInt(Math.round(one.createdAtMs)) * 1_000_000n,
  };
}
