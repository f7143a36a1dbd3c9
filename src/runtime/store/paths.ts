import { basename, join } from 'node:path';

const OCI_STATE = 'oci-';
const VOLUME = 'volume-';

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

  /** Of image layers, unpacked. */
  get layers(): string {
    return join(this.root, 'layers');
  }

  get snapshots(): string {
    return join(this.root, 'snapshots');
  }

  /** What pulls download, until it is unpacked. */
  get ingest(): string {
    return join(this.root, 'image', 'ingest');
  }

  /** The default network's addresses: a folder for each network, in it a file for each address that is given out. */
  get ipam(): string {
    return join(this.root, 'cni', 'ipam');
  }

  get sandboxes(): string {
    return join(this.state, 'sandboxes');
  }

  get containers(): string {
    return join(this.state, 'containers');
  }

  /** Of conmon's links to attach sockets. */
  get sockets(): string {
    return join(this.state, 'socks');
  }

  /** Of a folder for each command that is executed at the moment. */
  get execs(): string {
    return join(this.state, 'exec');
  }

  /** Where an OCI runtime of that name keeps its containers' state. */
  ociState(runtime: string): string {
    return join(this.state, `${OCI_STATE}${runtime}`);
  }

  /** The name of the OCI runtime whose state folder that is; undefined for any other path. */
  ociRuntimeOf(path: string): string | undefined {
    const name = basename(path).slice(OCI_STATE.length);
    return name !== '' && path === this.ociState(name) ? name : undefined;
  }

  /** What was found by trying the OCI runtimes. */
  get probeMemory(): string {
    return join(this.state, 'oci-runtimes.json');
  }

  /** Bundle of the container by which an OCI runtime of that name is tried. */
  probeBundle(runtime: string): string {
    return join(this.state, `probe-${runtime}`);
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
      user: join(dir, 'user'),
      resolvConf: join(dir, 'resolv.conf'),
      hosts: join(dir, 'hosts'),
      hostname: join(dir, 'hostname'),
      infraBundle: join(dir, 'infra'),
    };
  }

  container(id: string): ContainerPaths {
    const bundle = join(this.containers, id);
    return { bundle, rootfs: join(bundle, 'rootfs'), volume: (n) => join(bundle, `${VOLUME}${String(n)}`) };
  }
}

export interface SandboxPaths {
  readonly dir: string;
  readonly shm: string;
  readonly ipc: string;
  readonly uts: string;
  readonly user: string;
  readonly resolvConf: string;
  readonly hosts: string;
  readonly hostname: string;
  readonly infraBundle: string;
}

export interface ContainerPaths {
  readonly bundle: string;
  readonly rootfs: string;
  /** Where its n-th image volume is mounted. */
  volume(n: number): string;
}

/** Whether a name in a bundle is that of an image volume's mount point. */
export function isVolumeName(name: string): boolean {
  return name.startsWith(VOLUME) && /^\d+$/.test(name.slice(VOLUME.length));
}

/** Id of the snapshot behind a container's n-th image volume. The one behind its root file system has the container's own id. */
export function volumeSnapshotId(containerId: string, n: number): string {
  return `${containerId}-v${String(n)}`;
}

/** Whose a snapshot is, by its id; undefined for one that is no container's. */
export function containerOfSnapshot(snapshotId: string): string | undefined {
  return /^([0-9a-f]{64})(?:-v\d+)?$/.exec(snapshotId)?.[1];
}
