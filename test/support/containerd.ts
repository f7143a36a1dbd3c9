import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { accessSync, constants, existsSync } from 'node:fs';
import { lstat, open, readFile, rmdir, unlink, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { connectCri, type CriConnection } from '../../src/cri/client.ts';
import { ContainerConfig, ImageSpec, NamespaceMode, PodSandboxConfig, Protocol } from '../../src/cri/gen/api.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { execFile } from '../../src/linux/exec.ts';
import { Cgroups, detectCgroups } from '../../src/linux/cgroups.ts';
import { busyboxRootfs } from './busybox.ts';
import { eventually, op } from './gantryd.ts';
import { imageOf, layerOfTar, type Image } from './images.ts';
import type { LeakRoots } from './leak-probes.ts';
import { tarOf } from './tar.ts';
import type { TempRoot } from './temp-root.ts';

/** Sandboxes are made of it, too: its command does what a pause does. */
const IMAGE = 'localhost/neighbour/busybox:1';
const PAUSE = ['/bin/sleep', '1000000'];
const LAST_WORDS = 15;
/** Compiled in: no setting moves the shims' sockets, whose names are hashes. */
const SHIM_SOCKETS = '/run/containerd/s';
const CRI_NAMESPACE = 'k8s.io';
/** gantryd's own choice; containerd has room for one. */
const PLUG_INS = ['/opt/cni/bin', '/usr/lib/cni'];

/** A pod of one container that serves the image's page. */
export interface NeighbourPod {
  readonly sandboxId: string;
  readonly containerId: string;
  readonly netnsPath: string;
  readonly ip: string;
}

/** Why there is none to test with; false when there is. */
export function containerdIsMissing(): string | false {
  const missing = ['containerd', 'containerd-shim-runc-v2', 'ctr', 'runc'].filter((name) => !isOnPath(name));
  if (missing.length === 0) return false;
  return `needs ${missing.join(', ')}: apt-get install --no-install-recommends containerd`;
}

function isOnPath(name: string): boolean {
  return (process.env['PATH'] ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/**
 * The machine's containerd as a process of the test's own, with none of the folders, sockets and cgroups of one that serves
 * the machine, asked over CRI as kubelet asks. Disposing of it ends everything of it by force; check for leaks before.
 */
export class Containerd implements AsyncDisposable {
  readonly root: TempRoot;
  readonly cri: CriConnection;
  readonly #child: ChildProcess;
  readonly #sandboxes: string[] = [];

  private constructor(root: TempRoot, child: ChildProcess) {
    this.root = root;
    this.#child = child;
    this.cri = connectCri(containerdSocket(root));
  }

  /** Returns when it can make pods. The root's CNI configuration has to be there. */
  static async start(root: TempRoot): Promise<Containerd> {
    const cgroups = new Cgroups({ clock: systemClock, host: await detectCgroups() });
    await cgroups.ensureParent(root.cgroupParent);
    const config = join(root.dir, 'containerd.toml');
    await writeFile(config, containerdConfig(root));
    const log = await open(join(root.dir, 'containerd.log'), 'a');
    const child = spawn('containerd', ['--config', config], { stdio: ['ignore', log.fd, log.fd], cwd: '/' });
    await log.close();
    const daemon = new Containerd(root, child);
    try {
      await daemon.#serves();
      await daemon.#importImage();
      return daemon;
    } catch (error) {
      await daemon[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** With the cgroup of its root as the parent of its own. */
  async runPod(name: string, options: { readonly hostPort?: number } = {}): Promise<NeighbourPod> {
    const { runtime } = this.cri;
    const { hostPort } = options;
    const sandboxConfig = PodSandboxConfig.fromPartial({
      metadata: { name, namespace: 'default', uid: `uid-${name}`, attempt: 0 },
      hostname: name,
      logDirectory: join(this.root.logRoot, name),
      portMappings: hostPort === undefined ? [] : [{ protocol: Protocol.TCP, containerPort: 8080, hostPort }],
      linux: {
        cgroupParent: this.root.cgroupParent,
        securityContext: { namespaceOptions: { network: NamespaceMode.POD, pid: NamespaceMode.CONTAINER } },
      },
    });
    const { podSandboxId } = await runtime.runPodSandbox(op, { config: sandboxConfig, runtimeHandler: '' });
    this.#sandboxes.push(podSandboxId);
    const config = ContainerConfig.fromPartial({
      metadata: { name: 'main', attempt: 0 },
      image: { image: IMAGE },
      command: ['/bin/httpd', '-f', '-p', '8080', '-h', '/www'],
      logPath: 'main.log',
      linux: { resources: {}, securityContext: {} },
    });
    const { containerId } = await runtime.createContainer(op, { podSandboxId, config, sandboxConfig });
    await runtime.startContainer(op, { containerId });
    const { status, info } = await runtime.podSandboxStatus(op, { podSandboxId, verbose: true });
    const ip = status?.network?.ip ?? '';
    const { runtimeSpec } = JSON.parse(info['info'] ?? '{}') as SandboxInfo;
    const netnsPath = runtimeSpec?.linux?.namespaces?.find(({ type }) => type === 'network')?.path ?? '';
    assert.ok(ip !== '' && netnsPath !== '', `containerd told no address or namespace of ${name}`);
    return { sandboxId: podSandboxId, containerId, netnsPath, ip };
  }

  async endPod({ sandboxId: podSandboxId }: NeighbourPod): Promise<void> {
    await this.cri.runtime.stopPodSandbox(op, { podSandboxId });
    await this.cri.runtime.removePodSandbox(op, { podSandboxId });
  }

  /** What containerd itself says of the container. */
  async look({ containerId }: NeighbourPod): Promise<{ state: number; pid: number; startedAt: bigint }> {
    const { status, info } = await this.cri.runtime.containerStatus(op, { containerId, verbose: true });
    assert.ok(status);
    const { pid } = JSON.parse(info['info'] ?? '{}') as { pid: number };
    return { state: status.state, pid, startedAt: status.startedAt };
  }

  async exec({ containerId }: NeighbourPod, ...cmd: string[]): Promise<string> {
    const { exitCode, stdout, stderr } = await this.cri.runtime.execSync(op, { containerId, cmd, timeout: 60n });
    assert.equal(exitCode, 0, stderr.toString('utf8'));
    return stdout.toString('utf8');
  }

  /** What a {@link LeakCheck} compares. Its data is a cache that it sweeps when it likes; what it knows of pods is not. */
  leakRoots(netnsDir: string): LeakRoots {
    const { root } = this;
    const ofPods = { path: join(root.data, 'io.containerd.grpc.v1.cri'), depth: 2 };
    const tasks = { path: join(root.state, 'io.containerd.runtime.v2.task'), depth: 2 };
    return { ...root.leakRoots(), netnsDirs: [netnsDir], folders: [ofPods, tasks] };
  }

  /** The sockets of its pods' shims that are there. */
  async shimSockets(): Promise<string[]> {
    const found: string[] = [];
    for (const id of this.#sandboxes) {
      const path = shimSocketOf(this.root, id);
      if (await isThere(path)) found.push(path);
    }
    return found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cri.close();
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const exit = once(this.#child, 'exit');
      this.#child.kill('SIGKILL');
      await exit;
    }
    // Shims and containers carry the root's instance id, in their arguments or in their cgroup.
    await this.root[Symbol.asyncDispose]();
    for (const path of await this.shimSockets()) await unlink(path);
    // Another containerd's sockets keep the folders.
    for (const path of [SHIM_SOCKETS, '/run/containerd']) await rmdir(path).catch(() => undefined);
  }

  async #serves(): Promise<void> {
    await eventually(
      async () => {
        if (this.#child.exitCode !== null) throw new Error(`containerd ended: ${await this.#lastWords()}`);
        const answer = await this.cri.runtime.status(op, { verbose: false }).catch(() => undefined);
        return answer?.status?.conditions ?? [];
      },
      (conditions) => conditions.length > 0 && conditions.every(({ status }) => status),
      'a containerd that serves',
    );
  }

  async #lastWords(): Promise<string> {
    const text = await readFile(join(this.root.dir, 'containerd.log'), 'utf8');
    return text.trimEnd().split('\n').slice(-LAST_WORDS).join('\n');
  }

  async #importImage(): Promise<void> {
    const layer = layerOfTar(await tarOf(await busyboxRootfs()), 'none');
    const path = join(this.root.dir, 'neighbour.tar');
    await writeFile(path, await archiveOf(imageOf([layer], { config: { Cmd: PAUSE } }), IMAGE));
    const ctr = ['--address', containerdSocket(this.root), '--namespace', CRI_NAMESPACE];
    const { code, stderr } = await execFile(op, 'ctr', [...ctr, 'images', 'import', path]);
    assert.equal(code, 0, `ctr images import: ${stderr}`);
    // CRI hears of it a moment later.
    await eventually(
      () => this.cri.image.imageStatus(op, { image: ImageSpec.fromPartial({ image: IMAGE }), verbose: false }),
      ({ image }) => image !== undefined,
      'the image in containerd',
    );
  }
}

interface SandboxInfo {
  readonly runtimeSpec?: {
    readonly linux?: { readonly namespaces?: { readonly type: string; readonly path?: string }[] };
  };
}

export interface ContainerdSettings {
  /** What sandboxes are made of (default: the image that {@link Containerd} imports). */
  readonly sandboxImage?: string;
  /** Path of the OCI runtime (default: runc). */
  readonly ociRuntime?: string;
}

/**
 * As containerd 1.6 and 1.7 read it; 2 reads it, too. Every path that has a default outside the root is given. Where this machine is itself
 * a container, nobody may be harder to kill than we are.
 */
export function containerdConfig(root: TempRoot, settings: ContainerdSettings = {}): string {
  const { data, state, dir, cniConfDir } = root;
  const { sandboxImage = IMAGE, ociRuntime } = settings;
  const cri = 'plugins."io.containerd.grpc.v1.cri"';
  return `version = 2
root = "${data}"
state = "${state}"
temp = "${join(dir, 'tmp')}"
plugin_dir = "${join(dir, 'plugins')}"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.internal.v1.tracing"]
[grpc]
address = "${containerdSocket(root)}"
[debug]
address = "${join(state, 'debug.sock')}"
[plugins."io.containerd.internal.v1.opt"]
path = "${join(dir, 'opt')}"
[${cri}]
sandbox_image = "${sandboxImage}"
netns_mounts_under_state_dir = true
restrict_oom_score_adj = true
[${cri}.cni]
bin_dir = "${PLUG_INS.find((folder) => existsSync(folder)) ?? ''}"
conf_dir = "${cniConfDir}"
[${cri}.registry]
config_path = "${root.registryConfigDir}"
[${cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[${cri}.containerd.runtimes.runc.options]
Root = "${join(dir, 'runc')}"
${ociRuntime === undefined ? '' : `BinaryName = "${ociRuntime}"\n`}`;
}

export function containerdSocket(root: TempRoot): string {
  return join(root.state, 'containerd.sock');
}

/** One shim serves a pod. */
function shimSocketOf(root: TempRoot, sandboxId: string): string {
  const name = createHash('sha256')
    .update(join(containerdSocket(root), CRI_NAMESPACE, sandboxId))
    .digest('hex');
  return join(SHIM_SOCKETS, name);
}

async function isThere(path: string): Promise<boolean> {
  return await lstat(path).then(
    () => true,
    () => false,
  );
}

/** An OCI layout that says by which name it is to be known. */
async function archiveOf({ manifest, config, layers }: Image, name: string): Promise<Buffer> {
  const { mediaType, digest, size } = manifest;
  const annotations = { 'io.containerd.image.name': name, 'org.opencontainers.image.ref.name': name };
  const index = { schemaVersion: 2, manifests: [{ mediaType, digest, size, annotations }] };
  const blobs = [manifest, config, ...layers].map((blob) => [`blobs/${blob.digest.replace(':', '/')}`, blob.data]);
  return await tarOf({
    'oci-layout': '{"imageLayoutVersion":"1.0.0"}',
    'index.json': JSON.stringify(index),
    ...(Object.fromEntries(blobs) as Record<string, Buffer>),
  });
}
