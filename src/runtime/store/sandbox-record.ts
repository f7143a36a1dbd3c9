import { PodSandboxConfig } from '../../cri/gen/api.ts';
import { internal } from '../../lib/errors.ts';
import type { JournalSubject } from '../../journal/journal.ts';
import type { IdMappings } from '../../linux/id-mappings.ts';
import type { OciRuntimeLocation } from '../oci/oci-runtime.ts';
import type { SandboxStatus } from '../sandbox/state.ts';
import type { CgroupDriver } from '../settings.ts';
import type { RecordCodec, RecordStore, StoredRecord } from './record-store.ts';

/** How a sandbox's namespaces come about. `own`: each container has one of its own. */
export interface SandboxNamespaces {
  readonly network: 'pod' | 'host';
  readonly uts: 'pod' | 'host';
  readonly ipc: 'pod' | 'own' | 'host';
  readonly pid: 'pod' | 'own' | 'host';
}

/** What we decided about a sandbox when it was made. All that ending it needs, whatever the configuration says by then. */
export interface SandboxFacts {
  /** Name, namespace, uid and attempt: unique among the sandboxes there are. */
  readonly name: string;
  /** As it was asked for; empty: the default one of that time. */
  readonly runtimeHandler: string;
  /** The OCI runtime which that was: all of the pod's containers are made with it, whatever is configured by then. Absent in older records. */
  readonly runtime?: OciRuntimeLocation;
  readonly namespaces: SandboxNamespaces;
  readonly hostname: string;
  /** Set where the pod has a user namespace of its own. */
  readonly idMappings?: IdMappings;
  /** Below the cgroup mounts; every container of the pod has its own below it, made by the same driver: `runtime` says which. */
  readonly cgroupPath: string;
  /** Set where the pod has a network of its own. */
  readonly netnsPath?: string;
}

/** Who makes the cgroups of its containers. */
export function cgroupDriverOf({ runtime }: Pick<SandboxFacts, 'runtime'>): CgroupDriver {
  return runtime?.systemdCgroup === true ? 'systemd' : 'cgroupfs';
}

export interface SandboxMeta {
  readonly id: string;
  /** As it came with RunPodSandbox. */
  readonly config: PodSandboxConfig;
  readonly facts: SandboxFacts;
}

export type SandboxRecord = StoredRecord<SandboxMeta, SandboxStatus>;
export type SandboxStore = RecordStore<SandboxMeta, SandboxStatus>;

const STATES: readonly string[] = ['starting', 'ready', 'notready'];

export const SANDBOX_CODEC: RecordCodec<SandboxMeta, SandboxStatus> = {
  table: 'sandboxes',
  noun: 'sandbox',
  encodeMeta: (meta) => ({ config: PodSandboxConfig.encode(meta.config).finish(), facts: meta.facts }),
  decode: (id, config, facts, status) => {
    const checkedFacts = facts as SandboxFacts;
    const checkedStatus = status as SandboxStatus;
    if (typeof checkedFacts.name !== 'string') throw internal('facts without a name');
    if (!STATES.includes(checkedStatus.state.kind)) throw internal(`unknown state ${checkedStatus.state.kind}`);
    return { meta: { id, config: PodSandboxConfig.decode(config), facts: checkedFacts }, status: checkedStatus };
  },
};

export function sandboxSubject(meta: SandboxMeta): JournalSubject {
  const { metadata } = meta.config;
  return {
    sandboxId: meta.id,
    ...(metadata === undefined ? {} : { podName: metadata.name, podNamespace: metadata.namespace }),
    ...(metadata === undefined || metadata.uid === '' ? {} : { podUid: metadata.uid }),
  };
}
