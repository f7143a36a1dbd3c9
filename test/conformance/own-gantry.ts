import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execFile } from '../../src/linux/exec.ts';
import type { CgroupDriver } from '../../src/runtime/settings.ts';
import { Gantryd, op } from '../support/gantryd.ts';
import { LeakCheck } from '../support/leak-check.ts';
import { TempRoot } from '../support/temp-root.ts';
import type { ImageSource } from './image-source.ts';
import { serveLayout } from './layout-registry.ts';
import { relayTo } from './way-out.ts';

export interface OwnGantryOptions {
  readonly ociRuntime: string;
  readonly cgroupDriver: CgroupDriver;
  readonly images: ImageSource;
  /** The proxy's socket: see way-out.ts. */
  readonly wayOut: string;
}

/** In a network namespace of its own any will do. */
const SUBNET = '10.88.0.0/16';
/** Left with the daemon, as caches are; what is of pods must be gone. */
const PROBES = ['mounts', 'network namespaces', 'CNI addresses', 'links', 'iptables rules', 'cgroups'];

/**
 * A Gantry of the suite's own, with a root, a state, a CNI configuration and a bridge that nobody else has. To be made in namespaces of its
 * own (network, mounts, IPC): they take along what a spec leaves behind.
 */
export class OwnGantry implements AsyncDisposable {
  readonly daemon: Gantryd;
  readonly #open: AsyncDisposable[];
  #leaks: LeakCheck | undefined;

  private constructor(daemon: Gantryd, open: AsyncDisposable[]) {
    this.daemon = daemon;
    this.#open = open;
  }

  static async start(options: OwnGantryOptions): Promise<OwnGantry> {
    await execFile(op, 'ip', ['link', 'set', 'lo', 'up']);
    const root = await TempRoot.make({ cgroupDriver: options.cgroupDriver });
    const open: AsyncDisposable[] = [root];
    try {
      await root.writeCniConfig(SUBNET, { ipMasq: true });
      await provideImages(root, options, open);
      const flags = ['--runtime-only', `--oci-runtime=${options.ociRuntime}`];
      const daemon = await Gantryd.make({ root, flags });
      open.push(daemon);
      await daemon.start({ agent: false });
      return new OwnGantry(daemon, open);
    } catch (error) {
      await disposeAll(open);
      throw error;
    }
  }

  /** What the daemon says of itself. */
  async version(): Promise<string> {
    const { runtimeName, runtimeVersion } = await this.daemon.cri.runtime.version(op, { version: '' });
    return `${runtimeName} ${runtimeVersion}`;
  }

  /** After a first run has brought the bridge: pods that specs have left are removed, and what is there now may be there later. */
  async settle(): Promise<void> {
    await this.#removePods();
    this.#leaks ??= await LeakCheck.begin(this.daemon.root.leakRoots());
  }

  /** Throws when more is left than {@link settle} first found. */
  async assertNothingLeft(): Promise<void> {
    await this.#removePods();
    await this.#leaks?.assertNone({ only: PROBES });
  }

  /** The daemon's log goes beside the suite's. */
  async keepLog(folder: string): Promise<void> {
    await writeFile(join(folder, 'gantryd.log'), await this.daemon.log());
  }

  /** Some specs do not remove their pods. */
  async #removePods(): Promise<void> {
    const { runtime } = this.daemon.cri;
    const { items } = await runtime.listPodSandbox(op, { filter: undefined });
    for (const { id: podSandboxId } of items) {
      await runtime.stopPodSandbox(op, { podSandboxId });
      await runtime.removePodSandbox(op, { podSandboxId });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await disposeAll(this.#open);
  }
}

async function disposeAll(open: AsyncDisposable[]): Promise<void> {
  for (const one of open.splice(0).reverse()) await one[Symbol.asyncDispose]();
}

/** Writes certs.d, and how to get there into this process's environment, which the daemon inherits. */
async function provideImages(
  root: TempRoot,
  { images, wayOut }: OwnGantryOptions,
  open: AsyncDisposable[],
): Promise<void> {
  if (images.kind === 'layout') {
    const registry = await serveLayout(images.folder);
    open.push(registry);
    await writeMirror(root, `http://${registry.host}`);
    return;
  }
  const relay = await relayTo(wayOut);
  open.push(relay);
  const proxy = `http://127.0.0.1:${String(relay.port)}`;
  for (const name of ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy']) process.env[name] = proxy;
  for (const name of ['NO_PROXY', 'no_proxy']) process.env[name] = '';
  if (images.kind === 'mirror') await writeMirror(root, images.url);
}

async function writeMirror(root: TempRoot, url: string): Promise<void> {
  const folder = join(root.registryConfigDir, '_default');
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'hosts.toml'), `server = "${url}"\n`);
}
