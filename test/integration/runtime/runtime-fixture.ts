import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import {
  ContainerConfig,
  CreateContainerRequest,
  NamespaceMode,
  PodSandboxConfig,
  type ContainerStatus,
} from '../../../src/cri/gen/api.ts';
import { Journal, JOURNAL_SCHEMA } from '../../../src/journal/journal.ts';
import type { Op } from '../../../src/lib/abort.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { NO_FAULTS, type FaultPoints } from '../../../src/lib/fault-points.ts';
import { createLog } from '../../../src/lib/json-log.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { StoreThread } from '../../../src/lib/store/store-thread.ts';
import { bootId } from '../../../src/linux/procfs.ts';
import { createRuntime, type Runtime } from '../../../src/runtime/main.ts';
import { TempRoot } from '../../support/temp-root.ts';
import { makeBusyboxRootfs } from '../../../scripts/busybox-rootfs.ts';

export const IMAGE = 'localhost/busybox:test';

const log = process.env['GANTRY_TEST_LOG'] === undefined ? silentLog : createLog('debug');
export const op: Op = { signal: new AbortController().signal, log };

/** Where a runtime keeps its things. */
export type Places = Pick<
  TempRoot,
  | 'data'
  | 'state'
  | 'netnsDir'
  | 'instance'
  | 'cgroupParent'
  | 'cgroupDriver'
  | 'cniConfDir'
  | 'registryConfigDir'
  | 'criSocket'
>;

export interface Opened {
  readonly runtime: Runtime;
  close(): Promise<void>;
}

export interface OpenOptions {
  readonly cniBinDirs?: readonly string[];
  /** By default what works here. */
  readonly ociRuntime?: string;
  /** Further handlers. */
  readonly runtimes?: readonly string[];
  readonly faults?: FaultPoints;
  /** While there is one, nothing can be written to a database. */
  readonly diskFailure?: () => Error | undefined;
}

/** The store as it is, on a disk that fails when a test says so. */
class FailingStore extends StoreThread {
  readonly #failure: () => Error | undefined;

  constructor(failure: () => Error | undefined) {
    super();
    this.#failure = failure;
  }

  override async open(options: Parameters<StoreThread['open']>[0]): ReturnType<StoreThread['open']> {
    const { db, ...rest } = await super.open(options);
    const write: typeof db.write = async (...statements) => {
      const failure = this.#failure();
      if (failure !== undefined) throw failure;
      await db.write(...statements);
    };
    return { ...rest, db: { ...db, write } };
  }
}

export async function openRuntime(root: Places, options: OpenOptions = {}): Promise<Opened> {
  const {
    cniBinDirs = ['/opt/cni/bin', '/usr/lib/cni'],
    ociRuntime = process.env['GANTRY_TEST_OCI_RUNTIME'] ?? 'auto',
    faults = NO_FAULTS,
    diskFailure = () => undefined,
  } = options;
  const store = new FailingStore(diskFailure);
  const { db } = await store.open({ path: join(root.data, 'journal.db'), schema: JOURNAL_SCHEMA, durable: true });
  const journal = await Journal.open(db, systemClock, await bootId(), log);
  const runtime = await createRuntime(
    {
      root: root.data,
      state: root.state,
      netnsDir: root.netnsDir,
      instance: root.instance,
      cgroupParent: root.cgroupParent,
      cgroupDriver: root.cgroupDriver,
      ociRuntime,
      runtimes: options.runtimes ?? [],
      cniConfDir: root.cniConfDir,
      cniBinDirs,
      registryConfigDir: root.registryConfigDir,
      cdiSpecDirs: [join(root.data, 'cdi')],
      defaultNetwork: true,
      streamingAddress: '127.0.0.1:0',
      version: '0.1.0',
    },
    { clock: systemClock, log, journal, store, credentialFiles: [], env: {}, faults },
  );
  return {
    runtime,
    close: async () => {
      await runtime.close();
      await db.close();
      await store.close();
    },
  };
}

/** For the first time on a root: with {@link IMAGE} in its store. */
export async function openWithImage(root: TempRoot, options: OpenOptions): Promise<Opened> {
  const opened = await openRuntime(root, options);
  const rootfs = join(root.dir, 'rootfs');
  await mkdir(rootfs);
  await makeBusyboxRootfs(rootfs);
  await opened.runtime.images.import(op, { kind: 'rootfs', path: rootfs, name: IMAGE });
  return opened;
}

/** A runtime of its own in a folder of its own, with a busybox image. */
export class RuntimeFixture implements AsyncDisposable {
  readonly root: TempRoot;
  readonly #options: OpenOptions;
  #opened: Opened;

  private constructor(root: TempRoot, options: OpenOptions, opened: Opened) {
    this.root = root;
    this.#options = options;
    this.#opened = opened;
  }

  static async make(
    optionsFor: (root: TempRoot) => OpenOptions | Promise<OpenOptions> = () => ({}),
  ): Promise<RuntimeFixture> {
    // The systemd driver wants a process of the daemon's own.
    const root = await TempRoot.make({ cgroupDriver: 'cgroupfs' });
    try {
      const options = await optionsFor(root);
      const opened = await openWithImage(root, options);
      await opened.runtime.recovered;
      return new RuntimeFixture(root, options, opened);
    } catch (error) {
      await root[Symbol.asyncDispose]();
      throw error;
    }
  }

  get runtime(): Runtime {
    return this.#opened.runtime;
  }

  get cri(): Runtime['runtime'] {
    return this.#opened.runtime.runtime;
  }

  /** Ends this process's runtime and opens another one on the same folders; pods go on meanwhile. */
  async restart(between: () => Promise<void> = () => Promise.resolve()): Promise<void> {
    await this.#opened.close();
    await between();
    this.#opened = await openRuntime(this.root, this.#options);
  }

  async runSandbox(config: PodSandboxConfig): Promise<string> {
    return (await this.cri.runPodSandbox(op, { config, runtimeHandler: '' })).podSandboxId;
  }

  async createContainer(sandboxId: string, sandboxConfig: PodSandboxConfig, config: ContainerConfig): Promise<string> {
    const request = CreateContainerRequest.fromPartial({});
    return (await this.cri.createContainer(op, { ...request, podSandboxId: sandboxId, config, sandboxConfig }))
      .containerId;
  }

  async runContainer(sandboxId: string, sandboxConfig: PodSandboxConfig, config: ContainerConfig): Promise<string> {
    const containerId = await this.createContainer(sandboxId, sandboxConfig, config);
    await this.cri.startContainer(op, { containerId });
    return containerId;
  }

  async status(containerId: string): Promise<ContainerStatus> {
    const { status } = await this.cri.containerStatus(op, { containerId, verbose: false });
    if (status === undefined) throw new Error(`no status of ${containerId}`);
    return status;
  }

  async waitFor(
    containerId: string,
    done: (status: ContainerStatus) => boolean,
    timeoutMs = 60_000,
  ): Promise<ContainerStatus> {
    const endMs = performance.now() + timeoutMs;
    for (;;) {
      const status = await this.status(containerId);
      if (done(status)) return status;
      if (performance.now() > endMs) throw new Error(`container stays ${String(status.state)} ${status.reason}`);
      await systemClock.sleep(20);
    }
  }

  async stop(containerId: string, seconds: number): Promise<void> {
    await this.cri.stopContainer(op, { containerId, timeout: BigInt(seconds) });
  }

  async exec(containerId: string, ...cmd: string[]): Promise<{ exitCode: number; stdout: string; stderr: string }> {
    const { exitCode, stdout, stderr } = await this.cri.execSync(op, { containerId, cmd, timeout: 60n });
    return { exitCode, stdout: stdout.toString('utf8'), stderr: stderr.toString('utf8') };
  }

  async endPod(podSandboxId: string): Promise<void> {
    await this.cri.stopPodSandbox(op, { podSandboxId });
    await this.cri.removePodSandbox(op, { podSandboxId });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened.close();
    await this.root[Symbol.asyncDispose]();
  }
}

export interface PodOptions {
  readonly network?: NamespaceMode;
  readonly pid?: NamespaceMode;
  readonly ipc?: NamespaceMode;
  readonly attempt?: number;
  readonly sysctls?: Record<string, string>;
  /** Whether it can have privileged containers. */
  readonly privileged?: boolean;
  readonly portMappings?: PodSandboxConfig['portMappings'];
}

/** A pod on the host's network with a PID namespace per container, unless said otherwise. */
export function pod(root: TempRoot, name: string, options: PodOptions = {}): PodSandboxConfig {
  return PodSandboxConfig.fromPartial({
    metadata: { name, namespace: 'default', uid: `uid-${name}`, attempt: options.attempt ?? 0 },
    hostname: name,
    logDirectory: join(root.logRoot, name),
    dnsConfig: { servers: ['192.0.2.53'], searches: ['example.test'], options: ['ndots:2'] },
    portMappings: options.portMappings ?? [],
    labels: { app: name },
    annotations: { note: 'kept as it is' },
    linux: {
      sysctls: options.sysctls ?? {},
      securityContext: {
        privileged: options.privileged ?? false,
        namespaceOptions: {
          network: options.network ?? NamespaceMode.NODE,
          pid: options.pid ?? NamespaceMode.CONTAINER,
          ipc: options.ipc ?? NamespaceMode.POD,
        },
      },
    },
  });
}

export function container(name: string, command: readonly string[], more: object = {}): ContainerConfig {
  return ContainerConfig.fromPartial({
    metadata: { name, attempt: 0 },
    image: { image: IMAGE },
    command: [...command],
    logPath: `${name}/0.log`,
    labels: { container: name },
    ...more,
  });
}
