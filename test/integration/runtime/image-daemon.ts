import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { makeBusyboxRootfs } from '../../../scripts/busybox-rootfs.ts';
import type { ContainerConfig, PodSandboxConfig } from '../../../src/cri/gen/api.ts';
import type { RuntimeService } from '../../../src/cri/services.ts';
import { TempRoot } from '../../support/temp-root.ts';
import { DaemonProcess } from './daemon-process.ts';
import { IMAGE, op, openRuntime } from './runtime-fixture.ts';

/** A daemon in a process and a folder of its own, with a busybox image. */
export class ImageDaemon extends DaemonProcess {
  readonly root: TempRoot;

  private constructor(root: TempRoot) {
    super(root);
    this.root = root;
  }

  static async make(): Promise<ImageDaemon> {
    const root = await TempRoot.make();
    const opened = await openRuntime(root);
    const rootfs = join(root.dir, 'rootfs');
    await mkdir(rootfs);
    await makeBusyboxRootfs(rootfs);
    await opened.runtime.images.import(op, { kind: 'rootfs', path: rootfs, name: IMAGE });
    await opened.close();
    const daemon = new ImageDaemon(root);
    await daemon.start();
    return daemon;
  }

  get runtime(): RuntimeService {
    return this.cri.runtime;
  }

  async runPod(config: PodSandboxConfig): Promise<string> {
    return (await this.runtime.runPodSandbox(op, { config, runtimeHandler: '' })).podSandboxId;
  }

  async endPod(podSandboxId: string): Promise<void> {
    await this.runtime.stopPodSandbox(op, { podSandboxId });
    await this.runtime.removePodSandbox(op, { podSandboxId });
  }

  async create(podSandboxId: string, sandboxConfig: PodSandboxConfig, config: ContainerConfig): Promise<string> {
    return (await this.runtime.createContainer(op, { podSandboxId, config, sandboxConfig })).containerId;
  }

  async run(podSandboxId: string, sandboxConfig: PodSandboxConfig, config: ContainerConfig): Promise<string> {
    const containerId = await this.create(podSandboxId, sandboxConfig, config);
    await this.runtime.startContainer(op, { containerId });
    return containerId;
  }

  /** To its end, with its output. */
  async execSync(containerId: string, ...cmd: readonly string[]): Promise<string> {
    return (await this.runtime.execSync(op, { containerId, cmd: [...cmd], timeout: 60n })).stdout.toString('utf8');
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    await super[Symbol.asyncDispose]();
    await this.root[Symbol.asyncDispose]();
  }
}
