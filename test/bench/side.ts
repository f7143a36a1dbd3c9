import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectCri, type CriConnection } from '../../src/cri/client.ts';
import { ContainerState } from '../../src/cri/gen/api.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { messageOf } from '../../src/lib/errors.ts';
import { Cgroups, detectCgroups } from '../../src/linux/cgroups.ts';
import { containerdConfig, containerdSocket } from '../support/containerd.ts';
import { op } from '../support/gantryd.ts';
import type { TempRoot } from '../support/temp-root.ts';
import { pssOf, type Memory } from './memory.ts';
import type { Network } from './rows.ts';
import type { Party } from './samples.ts';

/** One of the runtimes that are compared, with places of its own. */
export interface Side extends AsyncDisposable {
  readonly party: Party;
  readonly root: TempRoot;
  readonly cri: CriConnection;
  /** For pods; '' is the runtime's own. */
  readonly cgroupParent: string;
  /** Starts the daemon; resolves when it can make pods. */
  start(): Promise<void>;
  /** Starts it, which has to find so many containers running; returns how long that took. */
  startUntilRunning(count: number): Promise<number>;
  /** SIGTERM, to the daemon alone. */
  end(): Promise<void>;
  memory(): Promise<Memory>;
}

export interface SideOptions {
  readonly root: TempRoot;
  readonly ociRuntime: string;
  readonly network: Network;
  /** Sandboxes of containerd are made of it. */
  readonly image: string;
}

interface Daemon {
  readonly party: Party;
  readonly command: readonly [file: string, ...args: string[]];
  readonly socket: string;
  /** The short names of what it starts beside the containers. */
  readonly monitors: RegExp;
  readonly cgroupParent: string;
}

const READY_WITHIN_MS = 60_000;
const LOOK_AGAIN_MS = 2;
const LAST_WORDS = 10;

export function gantrySide(program: string, { root, ociRuntime, network }: SideOptions): Side {
  // Its own default network goes with the agent; on a configuration that is there already both do the same.
  const flags = network === 'same' ? ['--runtime-only'] : [];
  return new DaemonSide(root, {
    party: 'gantry',
    command: [program, ...root.flags(), `--oci-runtime=${ociRuntime}`, '--log-level=warn', ...flags],
    socket: root.criSocket,
    monitors: /^(conmon|catatonit)$/,
    cgroupParent: '',
  });
}

export async function containerdSide({ root, ociRuntime, image }: SideOptions): Promise<Side> {
  await new Cgroups({ clock: systemClock, host: await detectCgroups() }).ensureParent(root.cgroupParent);
  const config = join(root.dir, 'containerd.toml');
  await writeFile(config, containerdConfig(root, { sandboxImage: image, ociRuntime }));
  return new DaemonSide(root, {
    party: 'other',
    command: ['containerd', '--config', config, '--log-level', 'warn'],
    socket: containerdSocket(root),
    monitors: /^containerd-shim/,
    // So that nothing of it is left on a failure.
    cgroupParent: root.cgroupParent,
  });
}

class DaemonSide implements Side {
  readonly party: Party;
  readonly root: TempRoot;
  readonly #daemon: Daemon;
  #child: ChildProcess | undefined;
  #cri: CriConnection | undefined;

  constructor(root: TempRoot, daemon: Daemon) {
    this.party = daemon.party;
    this.root = root;
    this.#daemon = daemon;
  }

  get cgroupParent(): string {
    return this.#daemon.cgroupParent;
  }

  get cri(): CriConnection {
    if (this.#cri === undefined) throw new Error('the daemon does not run');
    return this.#cri;
  }

  async start(): Promise<void> {
    await this.#launch();
    await this.#until(async () => {
      const { status } = await this.cri.runtime.status(op, { verbose: false });
      return status?.conditions.length !== 0 && status?.conditions.every((condition) => condition.status) === true;
    });
  }

  async startUntilRunning(count: number): Promise<number> {
    const began = performance.now();
    await this.#launch();
    const filter = { id: '', state: { state: ContainerState.CONTAINER_RUNNING }, podSandboxId: '', labelSelector: {} };
    await this.#until(async () => (await this.cri.runtime.listContainers(op, { filter })).containers.length >= count);
    return performance.now() - began;
  }

  async end(): Promise<void> {
    this.#cri?.close();
    this.#cri = undefined;
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, 'exit');
    child.kill('SIGTERM');
    await exit;
  }

  async memory(): Promise<Memory> {
    return await pssOf(this.#child?.pid ?? 0, this.#daemon.monitors, this.root.instance);
  }

  async #launch(): Promise<void> {
    const [file, ...args] = this.#daemon.command;
    const log = await open(this.#logPath, 'a');
    this.#child = spawn(file, args, { stdio: ['ignore', log.fd, log.fd], cwd: '/' });
    await log.close();
    this.#cri = connectCri(this.#daemon.socket);
  }

  async #until(done: () => Promise<boolean>): Promise<void> {
    const endMs = performance.now() + READY_WITHIN_MS;
    let why = 'it is not as it should be';
    while (performance.now() < endMs && this.#child?.exitCode === null) {
      try {
        if (await done()) return;
      } catch (error) {
        why = messageOf(error);
        // A client that has failed once waits before it tries again: longer than the start takes.
        this.#cri?.close();
        this.#cri = connectCri(this.#daemon.socket);
      }
      await sleep(LOOK_AGAIN_MS);
    }
    const words = (await readFile(this.#logPath, 'utf8')).trimEnd().split('\n').slice(-LAST_WORDS).join('\n');
    throw new Error(`${this.#daemon.command[0]} does not serve: ${why}\n${words}`);
  }

  get #logPath(): string {
    return join(this.root.dir, 'daemon.log');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
    await this.root[Symbol.asyncDispose]();
  }
}
