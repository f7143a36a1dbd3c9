/** Who makes cgroups: we, as directories, or systemd, as its units. */
export type CgroupDriver = 'cgroupfs' | 'systemd';

/** What of gantryd's configuration the runtime needs. Paths are absolute. */
export interface RuntimeSettings {
  /** Survives a reboot. */
  readonly root: string;
  /** Does not. */
  readonly state: string;
  readonly netnsDir: string;
  /** Carried by everything that is made on the host. */
  readonly instance: string;
  /** Below the cgroup mounts: `/gantry-<instance>`, or the path of a slice. */
  readonly cgroupParent: string;
  /** Who makes the cgroups of new sandboxes (default cgroupfs); each keeps its own. */
  readonly cgroupDriver?: CgroupDriver;
  /** `auto`, `crun`, `runc` or a path. */
  readonly ociRuntime: string;
  /** Further handlers: `NAME`, or `NAME=/PATH`. */
  readonly runtimes?: readonly string[];
  readonly cniConfDir: string;
  readonly cniBinDirs: readonly string[];
  readonly registryConfigDir: string;
  /** Of the Container Device Interface; a later one wins. */
  readonly cdiSpecDirs: readonly string[];
  /** Names of images that are never garbage (CRI Image.pinned). */
  readonly pinnedImages?: readonly string[];
  /** With the agent on top: an empty CNI folder is filled by a network of our own, in memory. */
  readonly defaultNetwork: boolean;
  /** `HOST:PORT` for the streams of exec, attach and port-forward; port 0 is any free one. */
  readonly streamingAddress: string;
  readonly version: string;
}
