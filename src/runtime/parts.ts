import type { Socket } from 'node:net';
import type { Op } from '../lib/abort.ts';
import type { HostSets } from '../linux/cpu-list.ts';
import type { IdMappings } from '../linux/id-mappings.ts';
import type { LimitChange } from './limits/limits-intent.ts';
import type { PodLimits } from './limits/pod-resources.ts';
import type { Pin, PinKind } from './sandbox/state.ts';

/**
 * What sandboxes and containers need of the other rooms, in the words of the one who needs it. `main.ts` hands in the real
 * ones; tests of the sequences hand in small ones of their own.
 */

export interface FoundImage {
  /** Digest of its configuration. */
  readonly id: string;
  readonly repoTags: readonly string[];
  readonly repoDigests: readonly string[];
  readonly diffIds: readonly string[];
  readonly entrypoint?: readonly string[];
  readonly cmd?: readonly string[];
  readonly env?: readonly string[];
  readonly workingDir?: string;
  readonly user?: string;
  readonly stopSignal?: string;
}

export interface ImageLookup {
  /** By id, tag or digest reference; undefined when it is not here. From memory. */
  find(reference: string): FoundImage | undefined;
}

export interface ContainerSnapshots {
  /** A writable layer over the image's layers (bottom first). */
  prepare(op: Op, id: string, diffIds: readonly string[], idMappings?: IdMappings): Promise<void>;
  mount(
    op: Op,
    id: string,
    target: string,
    options?: { readonly readOnly?: boolean; readonly userNamespace?: string },
  ): Promise<void>;
  /** Not mounted is a success. */
  unmount(op: Op, target: string): Promise<void>;
  /** Gone is a success. */
  remove(op: Op, id: string): Promise<void>;
  /** What a container has changed in its image, as an OCI layer in a new file. It may go on changing it. */
  saveChanges(op: Op, id: string, file: string): Promise<void>;
  /** A folder as an archive in a new file, which is on the disk then. */
  pack(op: Op, directory: string, file: string): Promise<void>;
}

export interface NetworkRequest {
  readonly sandboxId: string;
  readonly netnsPath: string;
  readonly podName: string;
  readonly podNamespace: string;
  readonly podUid: string;
  readonly hostname: string;
  readonly portMappings: readonly {
    readonly protocol: 'tcp' | 'udp' | 'sctp';
    readonly containerPort: number;
    readonly hostPort: number;
    readonly hostIp?: string;
  }[];
  readonly annotations: Readonly<Record<string, string>>;
}

/** All that disconnecting needs, as plain data for the ledger, whatever the configuration says by then. */
export type NetworkPlan = Readonly<Record<string, unknown>>;

export interface SandboxNetworks {
  /** Decides what will be done, before anything is done. Throws Unavailable when there is no network configuration. */
  plan(op: Op, request: NetworkRequest): Promise<NetworkPlan>;
  /** The same for a pod that is connected, and of whose connection nothing is known any more. */
  planAgain(op: Op, request: NetworkRequest): Promise<NetworkPlan>;
  /** CNI ADD. The plan that comes back (with its results) takes the first one's place. */
  connect(op: Op, request: NetworkRequest, plan: NetworkPlan): Promise<{ ips: readonly string[]; plan: NetworkPlan }>;
  /** CNI DEL. Without a namespace, or of what is not there: a success. */
  disconnect(op: Op, plan: NetworkPlan, netnsPath: string | undefined): Promise<void>;
  status(): Promise<{ readonly ready: boolean; readonly reason: string; readonly message: string }>;
}

export interface PodSockets {
  /** A TCP socket in that network namespace, not connected yet; absent: in the host's. */
  open(op: Op, netnsPath: string | undefined, family: 4 | 6): Promise<Socket>;
}

export interface PinRequest {
  readonly paths: Readonly<Partial<Record<PinKind, string>>>;
  /** Of the user namespace, where one is to be pinned. */
  readonly idMappings?: IdMappings;
  readonly hostname?: string;
  /** Applied inside. */
  readonly sysctls?: Readonly<Record<string, string>>;
}

export interface NamespacePins {
  /** New namespaces, each bound to its path; `lo` of a new network is up. */
  pin(op: Op, request: PinRequest): Promise<Pin[]>;
  /** Unbinds and removes the file. Gone is a success. */
  unpin(op: Op, path: string): Promise<void>;
  /** Decimal inode of the namespace file bound there; undefined when none is. */
  inodeOf(path: string): Promise<string | undefined>;
}

/** Of a container too: what is absent stays as it is. */
export interface Limits extends PodLimits {
  readonly cpusetCpus?: string;
  readonly cpusetMems?: string;
  readonly memorySwapLimitBytes?: number;
  readonly hugepageLimits?: readonly { readonly pageSize: string; readonly limitBytes: number }[];
  readonly unified?: Readonly<Record<string, string>>;
  /** Of each process that has the one: the other. */
  readonly oomScoreAdj?: { readonly from: number; readonly to: number };
}

export interface CgroupTree {
  exists(path: string): Promise<boolean>;
  /** There already is a success; the limits are set all the same. */
  create(op: Op, path: string, limits: PodLimits): Promise<void>;
  procs(path: string, recursive: boolean): Promise<number[]>;
  killAll(op: Op, path: string): Promise<void>;
  thaw(op: Op, path: string): Promise<void>;
  /** Deepest first. Gone is a success; throws while a process or another one's group is in it. */
  remove(op: Op, path: string): Promise<void>;
  /** Names of the groups directly below. */
  children(path: string): Promise<string[]>;
  /** CPUs and memory nodes that there are. */
  hostSets(): Promise<HostSets>;
  /**
   * What has to be written for these limits; nothing is changed. `known` are those that the group has had from us. Throws NotFound (no such
   * group), FailedPrecondition (more memory is in use, no such controller), InvalidArgument.
   */
  planLimits(path: string, wanted: Limits, known: Limits): Promise<readonly LimitChange[]>;
  /** In that order. Throws at the first that is refused: those before it are made, and to be taken back. */
  applyLimits(changes: readonly LimitChange[]): Promise<void>;
  /** Whatever part of it was made; of a group that is gone: a success. Throws when something stays as it is not to be. */
  takeLimitsBack(changes: readonly LimitChange[]): Promise<void>;
}

export interface MountPoints {
  tmpfs(op: Op, target: string, options: { readonly sizeBytes: number; readonly mode: number }): Promise<void>;
  /** Everything stacked there; not mounted is a success. */
  unmount(op: Op, target: string): Promise<void>;
}

export interface Folders {
  /** With those above it; there already is a success. */
  make(path: string, mode: number): Promise<void>;
  /** Names of what is in it; none when it is not there. */
  names(path: string): Promise<string[]>;
}

export interface TreeRemover {
  /** Removes `path` and all below, which lies below `root`. Throws, naming what is in the way, unless all is gone. */
  remove(op: Op, root: string, path: string): Promise<void>;
}

export interface ProcessLook {
  /** Whether that very process runs: another with its number is not it, and a zombie counts as gone. */
  alive(pid: number, startTimeTicks: number): Promise<boolean>;
  /** About each process that is there, for a person: pid, name, state, wait channel. Empty: none is. */
  describe(pids: readonly number[]): Promise<string>;
}
