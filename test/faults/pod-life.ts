import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  ContainerState,
  LinuxContainerResources,
  Mount,
  NamespaceMode,
  Protocol,
  type ContainerStatus,
  type PodSandboxConfig,
} from '../../src/cri/gen/api.ts';
import { isKind } from '../../src/lib/errors.ts';
import { taskCgroup } from '../../src/runtime/cgroup-layout.ts';
import { container, IMAGE, op, pod } from '../integration/runtime/runtime-fixture.ts';
import { memoryLimit } from '../support/cgroup-file.ts';
import type { TempRoot } from '../support/temp-root.ts';
import type { FaultDaemon } from './fault-daemon.ts';

/** Says that it began, and never twice; its exit code is known beforehand. */
const SCRIPTS = {
  /** Ends by itself. */
  own: { code: 7, script: 'echo begin; test -x /volume/busybox || exit 1; echo end; exit 7' },
  /** Ends when asked to. */
  trap: { code: 9, script: 'trap "echo end; exit 9" TERM; echo begin; while :; do sleep 0.05; done' },
  /** Must be killed. */
  hard: { code: 137, script: 'trap "" TERM; echo begin; while :; do sleep 1; done' },
} as const;
type Name = keyof typeof SCRIPTS;

/** The image beside itself, read-only. */
const IMAGE_VOLUME = Mount.fromPartial({
  containerPath: '/volume',
  readonly: true,
  image: { image: IMAGE },
  imageSubPath: 'bin',
});

/** The same one in each life: it is free again when the one before is over. */
const PUBLISHED = { protocol: Protocol.TCP, containerPort: 80, hostPort: 8080, hostIp: '' };

/** What pod and container are updated to. */
const [POD_BYTES, CONTAINER_BYTES] = [512 << 20, 128 << 20];

const LOOK_AGAIN_MS = 30;
const PATIENCE_MS = 120_000;

export interface LifeOptions {
  /** A start fails on purpose: the container is then made anew, as kubelet does. */
  readonly startMayFail?: boolean;
  /** The pod has users of its own. */
  readonly mapped?: boolean;
}

const USERS = { containerId: 0, hostId: 200_000, length: 65_536 };

/**
 * One pod's whole life, as kubelet drives it: made, run, ended, removed, each call repeated until it is answered. Throws at
 * anything that is not as it would be without any kill.
 */
export async function livePod(
  daemon: FaultDaemon,
  root: TempRoot,
  name: string,
  options: LifeOptions = {},
): Promise<void> {
  const config = configOf(root, name, options.mapped === true);
  const life = new PodLife(daemon, root, config, options.startMayFail === true);
  await life.run();
  await Promise.all((['own', 'trap', 'hard'] as const).map((one) => life.start(one)));
  await life.expectEnd('own');
  await life.hasBegun('trap');
  await life.hasBegun('hard');
  await life.updatePod();
  await life.update('hard');
  await life.exec('hard');
  await life.stop('trap');
  await life.expectEnd('trap');
  await life.remove('own');
  await life.stopPod();
  await life.expectEnd('hard');
  await life.removePod();
}

function configOf(root: TempRoot, name: string, mapped: boolean): PodSandboxConfig {
  const config = pod(root, name, { network: NamespaceMode.POD, pid: NamespaceMode.POD, portMappings: [PUBLISHED] });
  const options = config.linux?.securityContext?.namespaceOptions;
  if (mapped && options !== undefined) {
    options.usernsOptions = { mode: NamespaceMode.POD, uids: [USERS], gids: [USERS] };
  }
  return config;
}

interface PodInfo {
  readonly cgroupPath: string;
  readonly resources: { readonly resources: { readonly memoryLimitBytes?: number } };
}

class PodLife {
  readonly #daemon: FaultDaemon;
  readonly #root: TempRoot;
  readonly #config: PodSandboxConfig;
  readonly #startMayFail: boolean;
  readonly #ids = new Map<Name, string>();
  #sandboxId = '';

  constructor(daemon: FaultDaemon, root: TempRoot, config: PodSandboxConfig, startMayFail: boolean) {
    this.#daemon = daemon;
    this.#root = root;
    this.#config = config;
    this.#startMayFail = startMayFail;
  }

  async run(): Promise<void> {
    const config = this.#config;
    const made = await this.#daemon.ask(({ runtime }) => runtime.runPodSandbox(op, { config, runtimeHandler: '' }));
    this.#sandboxId = made.podSandboxId;
    await this.#eventually('one sandbox of this name', async () => {
      const { items } = await this.#daemon.ask(({ runtime }) => runtime.listPodSandbox(op, { filter: undefined }));
      return items.length === 1 && items[0]?.id === this.#sandboxId;
    });
  }

  /** What was being executed when a daemon died is ended by the next; the client asks again. */
  async exec(name: Name): Promise<void> {
    const request = { containerId: this.#idOf(name), cmd: ['sh', '-c', 'sleep 0.1; echo word; exit 3'], timeout: 60n };
    const { exitCode, stdout } = await this.#daemon.ask(({ runtime }) => runtime.execSync(op, request));
    assert.deepEqual([exitCode, stdout.toString('utf8')], [3, 'word\n']);
  }

  async start(name: Name, attempt = 0): Promise<void> {
    const config = container(name, ['sh', '-c', SCRIPTS[name].script], {
      metadata: { name, attempt },
      logPath: `${name}/${String(attempt)}.log`,
      mounts: name === 'own' ? [IMAGE_VOLUME] : [],
    });
    const request = { podSandboxId: this.#sandboxId, config, sandboxConfig: this.#config };
    const { containerId } = await this.#daemon.ask(({ runtime }) => runtime.createContainer(op, request));
    this.#ids.set(name, containerId);
    try {
      await this.#daemon.ask(({ runtime }) => runtime.startContainer(op, { containerId }));
    } catch (error) {
      // Cut short and undone: its status says so.
      if (!this.#startMayFail || !isKind(error, 'FailedPrecondition')) throw error;
    }
    const { reason } = await this.#status(name);
    if (reason !== 'StartError' || !this.#startMayFail || attempt > 0) return;
    await this.#daemon.ask(({ runtime }) => runtime.removeContainer(op, { containerId }));
    await this.start(name, attempt + 1);
  }

  /** The same once more after a kill: then record and cgroup agree. */
  async updatePod(): Promise<void> {
    const podSandboxId = this.#sandboxId;
    const resources = LinuxContainerResources.fromPartial({ memoryLimitInBytes: BigInt(POD_BYTES) });
    await this.#daemon.ask(async ({ runtime }) => {
      await this.#eventually("the pod's cgroup as its record has it", async () => {
        return (await memoryLimit(await this.#podCgroup())) === (await this.#podLimit());
      });
      await runtime.updatePodSandboxResources(op, { podSandboxId, resources, overhead: undefined });
    });
    assert.equal(await memoryLimit(await this.#podCgroup()), POD_BYTES);
    assert.equal(await this.#podLimit(), POD_BYTES);
  }

  async update(name: Name): Promise<void> {
    const containerId = this.#idOf(name);
    const linux = LinuxContainerResources.fromPartial({ memoryLimitInBytes: BigInt(CONTAINER_BYTES), cpuShares: 512n });
    const path = taskCgroup(await this.#podCgroup(), this.#root.cgroupDriver, this.#root, containerId);
    const recorded = async (): Promise<number> => {
      const { resources } = await this.#status(name);
      return Number(resources?.linux?.memoryLimitInBytes ?? -1);
    };
    await this.#daemon.ask(async ({ runtime }) => {
      await this.#eventually(`the cgroup of ${name} as its record has it`, async () => {
        return (await memoryLimit(path)) === (await recorded());
      });
      await runtime.updateContainerResources(op, { containerId, linux, windows: undefined, annotations: {} });
    });
    assert.equal(await recorded(), CONTAINER_BYTES);
    assert.equal(await memoryLimit(path), CONTAINER_BYTES);
  }

  async stop(name: Name): Promise<void> {
    const containerId = this.#idOf(name);
    await this.#daemon.ask(({ runtime }) => runtime.stopContainer(op, { containerId, timeout: 100n }));
  }

  async remove(name: Name): Promise<void> {
    const containerId = this.#idOf(name);
    await this.#daemon.ask(({ runtime }) => runtime.removeContainer(op, { containerId }));
  }

  async stopPod(): Promise<void> {
    const podSandboxId = this.#sandboxId;
    await this.#daemon.ask(({ runtime }) => runtime.stopPodSandbox(op, { podSandboxId }));
  }

  async removePod(): Promise<void> {
    const podSandboxId = this.#sandboxId;
    await this.#daemon.ask(({ runtime }) => runtime.removePodSandbox(op, { podSandboxId }));
    await this.#eventually('nothing listed', () =>
      this.#daemon.ask(async ({ runtime }) => {
        const { items } = await runtime.listPodSandbox(op, { filter: undefined });
        const { containers } = await runtime.listContainers(op, { filter: undefined });
        return items.length + containers.length === 0;
      }),
    );
  }

  async hasBegun(name: Name): Promise<void> {
    await this.#eventually(`the first line of ${name}`, async () => {
      const status = await this.#status(name);
      // Looked at each time, so that a container that ended before its time is told as such.
      if (status.state === ContainerState.CONTAINER_EXITED) assert.fail(`${name} has ended: ${describe(status)}`);
      return (await this.#lines(status)).includes('begin');
    });
  }

  /** The right code, told as its own end, at a time after its start, with every line in the log once. */
  async expectEnd(name: Name): Promise<void> {
    let status = await this.#status(name);
    await this.#eventually(`the end of ${name}`, async () => {
      status = await this.#status(name);
      return status.state === ContainerState.CONTAINER_EXITED;
    });
    assert.equal(status.exitCode, SCRIPTS[name].code, describe(status));
    assert.equal(status.reason, 'Error', describe(status));
    assert.ok(status.startedAt > 0n && status.finishedAt >= status.startedAt, describe(status));
    assert.deepEqual(await this.#lines(status), name === 'hard' ? ['begin'] : ['begin', 'end'], `the log of ${name}`);
  }

  #idOf(name: Name): string {
    const id = this.#ids.get(name);
    assert.ok(id);
    return id;
  }

  async #podInfo(): Promise<PodInfo> {
    const request = { podSandboxId: this.#sandboxId, verbose: true };
    const { info } = await this.#daemon.ask(({ runtime }) => runtime.podSandboxStatus(op, request));
    return JSON.parse(info['info'] ?? '{}') as PodInfo;
  }

  async #podCgroup(): Promise<string> {
    return (await this.#podInfo()).cgroupPath;
  }

  async #podLimit(): Promise<number> {
    return (await this.#podInfo()).resources.resources.memoryLimitBytes ?? -1;
  }

  async #status(name: Name): Promise<ContainerStatus> {
    const request = { containerId: this.#idOf(name), verbose: false };
    const { status } = await this.#daemon.ask(({ runtime }) => runtime.containerStatus(op, request));
    assert.ok(status);
    return status;
  }

  async #lines({ metadata }: ContainerStatus): Promise<string[]> {
    const { name = '', attempt = 0 } = metadata ?? {};
    const path = join(this.#config.logDirectory, name, `${String(attempt)}.log`);
    const text = await readFile(path, 'utf8').catch(() => '');
    return text.split('\n').flatMap((line) => (line === '' ? [] : [line.split(' ').slice(3).join(' ')]));
  }

  async #eventually(what: string, look: () => Promise<boolean>): Promise<void> {
    const startMs = performance.now();
    while (!(await look())) {
      if (this.#daemon.quietSinceMs(startMs) > PATIENCE_MS) assert.fail(`${what} did not come about`);
      await new Promise((next) => setTimeout(next, LOOK_AGAIN_MS));
    }
  }
}

function describe({ metadata, state, exitCode, reason, message, startedAt, finishedAt }: ContainerStatus): string {
  const times = `started ${String(startedAt)}, finished ${String(finishedAt)}`;
  return `${metadata?.name ?? ''}: state ${String(state)}, code ${String(exitCode)}, ${reason}: ${message}; ${times}`;
}
