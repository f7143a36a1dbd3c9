import { join } from 'node:path';

/** Where the runtime keeps what. `root` survives a reboot, `state` does not. */
export class RuntimePaths {
  readonly root: string;
  readonly state: string;

  constructor(root: string, state: string) {
    this.root = root;
    this.state = state;
  }

  get database(): string {
    return join(this.root, 'runtime.db');
  }

  get volatileDatabase(): string {
    return join(this.state, 'volatile.db');
  }

  /** Exit files: the first word of an exit, which neither a daemon that is away nor a full disk may cost. */
  get exits(): { readonly written: string; readonly kept: string } {
    return { written: join(this.state, 'exits'), kept: join(this.root, 'exits') };
  }

  get snapshots(): string {
    return join(this.root, 'snapshots');
  }

  get sandboxes(): string {
    return join(this.state, 'sandboxes');
  }

  get containers(): string {
    return join(this.state, 'containers');
  }

  /** Empty: one serves every pod's infra process. */
  get infraRootfs(): string {
    return join(this.state, 'infra-rootfs');
  }

  sandbox(id: string): SandboxPaths {
    const dir = join(this.sandboxes, id);
    return {
      dir,
      shm: join(dir, 'shm'),
      ipc: join(dir, 'ipc'),
      uts: join(dir, 'uts'),
      resolvConf: join(dir, 'resolv.conf'),
      hosts: join(dir, 'hosts'),
      hostname: join(dir, 'hostname'),
      infraBundle: join(dir, 'infra'),
    };
  }

  container(id: string): ContainerPaths {
    const bundle = join(this.containers, id);
    return { bundle, rootfs: join(bundle, 'rootfs') };
  }
}

export interface SandboxPaths {
  readonly dir: string;
  readonly shm: string;
  readonly ipc: string;
  readonly uts: string;
  readonly resolvConf: string;
  readonly hosts: string;
  readonly hostname: string;
  readonly infraBundle: string;
}

export interface ContainerPaths {
  readonly bundle: string;
  readonly rootfs: string;
}
