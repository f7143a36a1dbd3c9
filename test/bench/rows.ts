/** The two comparisons: both runtimes on one CNI configuration, and each on the network that it has by default. */
export type Network = 'same' | 'own';

export type RowKey =
  | 'run-sandbox'
  | 'run-sandbox-host-network'
  | 'create-start'
  | 'exec'
  | 'stop-container'
  | 'stop-remove-sandbox'
  | 'container-status'
  | 'list-50'
  | 'pull'
  | 'fill-50'
  | 'remove-50'
  | 'daemon-start'
  | 'memory-50'
  | 'apply'
  | 'delete'
  | 'get-pods'
  | 'delete-tree'
  | 'unpack';

export interface Row {
  readonly key: RowKey;
  readonly title: string;
  readonly unit: 'ms' | 's' | 'MB';
  /** The most that our figure may be of the other's, by network; absent where there is no goal. */
  readonly goal: Readonly<Partial<Record<Network, number>>>;
}

const always = (most: number): Row['goal'] => ({ same: most, own: most });

/** What is measured over CRI, on Gantry and on containerd. */
export const CRI_ROWS: readonly Row[] = [
  { key: 'run-sandbox', title: 'RunPodSandbox', unit: 'ms', goal: { same: 0.9, own: 0.6 } },
  { key: 'run-sandbox-host-network', title: 'RunPodSandbox, host network', unit: 'ms', goal: always(0.6) },
  { key: 'create-start', title: 'CreateContainer + StartContainer', unit: 'ms', goal: always(0.8) },
  { key: 'exec', title: 'ExecSync(true)', unit: 'ms', goal: always(1) },
  { key: 'stop-container', title: 'StopContainer (ends on SIGTERM)', unit: 'ms', goal: always(0.5) },
  { key: 'stop-remove-sandbox', title: 'StopPodSandbox + RemovePodSandbox', unit: 'ms', goal: { same: 0.9, own: 0.5 } },
  { key: 'container-status', title: 'ContainerStatus', unit: 'ms', goal: always(1) },
  { key: 'list-50', title: 'ListContainers, 50 containers', unit: 'ms', goal: always(1.5) },
  { key: 'pull', title: 'PullImage (small, local registry)', unit: 'ms', goal: always(1) },
  { key: 'fill-50', title: '50 pods with one container each', unit: 's', goal: { own: 0.6 } },
  { key: 'remove-50', title: 'remove those 50', unit: 's', goal: { own: 0.5 } },
  { key: 'daemon-start', title: 'daemon start until 50 containers are listed running', unit: 'ms', goal: always(1) },
  { key: 'memory-50', title: 'memory with 50 pods: daemon and monitors (PSS)', unit: 'MB', goal: always(0.7) },
];

/** Gantry beside something else than containerd; once, as no network is in them. */
export const OTHER_ROWS: readonly Row[] = [
  { key: 'apply', title: '`gantry apply --wait`, two containers / `podman kube play`', unit: 'ms', goal: always(0.7) },
  {
    key: 'delete',
    title: '`gantry delete` of that pod / the fast case of `podman kube down`',
    unit: 'ms',
    goal: always(1),
  },
  { key: 'get-pods', title: '`gantry get pods` / `node -e 0`', unit: 'ms', goal: always(1.5) },
  { key: 'delete-tree', title: 'safe-remove of a tree of files / `rm -rf`', unit: 's', goal: always(1.2) },
  { key: 'unpack', title: 'unpacking a gzip layer / `tar -xz`', unit: 's', goal: always(1.2) },
];
