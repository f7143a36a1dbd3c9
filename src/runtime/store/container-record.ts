import { ContainerConfig } from '../../cri/gen/api.ts';
import { internal } from '../../lib/errors.ts';
import type { JournalSubject } from '../../journal/journal.ts';
import type { ContainerStatus } from '../container/state.ts';
import type { RecordCodec, RecordStore, StoredRecord } from './record-store.ts';

/** The image as it was when the container was made: it may be pulled anew or removed while the container lives. */
export interface ContainerImage {
  readonly id: string;
  /** What people call it: a tag where it has one. */
  readonly shown: string;
  /** A digest reference where the image has one, else its id: CRI's `image_ref`. */
  readonly ref: string;
  readonly diffIds: readonly string[];
  readonly entrypoint?: readonly string[];
  readonly cmd?: readonly string[];
  readonly env?: readonly string[];
  readonly workingDir?: string;
  readonly user?: string;
}

/** An image that is mounted as a volume, as it was when the container was made. */
export interface ImageVolume {
  /** As CRI's mount has it. */
  readonly containerPath: string;
  readonly imageId: string;
  /** As it was asked for. */
  readonly shown: string;
  readonly diffIds: readonly string[];
  /** Inside the image; absent: all of it. */
  readonly subPath?: string;
}

export interface ContainerFacts {
  /** Sandbox, container name and attempt: unique among the containers there are. */
  readonly name: string;
  readonly sandboxId: string;
  readonly image: ContainerImage;
  readonly imageVolumes?: readonly ImageVolume[];
  /** Number: CRI's stop_signal, else the image's, else SIGTERM. */
  readonly stopSignal: number;
  readonly cgroupPath: string;
  /** Absent: output is thrown away. */
  readonly logPath?: string;
}

export interface ContainerMeta {
  readonly id: string;
  /** As it came with CreateContainer. */
  readonly config: ContainerConfig;
  readonly facts: ContainerFacts;
}

export type ContainerRecord = StoredRecord<ContainerMeta, ContainerStatus>;
export type ContainerStore = RecordStore<ContainerMeta, ContainerStatus>;

const STATES: readonly string[] = ['creating', 'created', 'running', 'exited', 'unknown'];

export const CONTAINER_CODEC: RecordCodec<ContainerMeta, ContainerStatus> = {
  table: 'containers',
  noun: 'container',
  encodeMeta: (meta) => ({ config: ContainerConfig.encode(meta.config).finish(), facts: meta.facts }),
  decode: (id, config, facts, status) => {
    const checkedFacts = facts as ContainerFacts;
    const checkedStatus = status as ContainerStatus;
    if (typeof checkedFacts.sandboxId !== 'string') throw internal('facts without a sandbox');
    if (!STATES.includes(checkedStatus.state.kind)) throw internal(`unknown state ${checkedStatus.state.kind}`);
    return { meta: { id, config: ContainerConfig.decode(config), facts: checkedFacts }, status: checkedStatus };
  },
};

export function containerSubject(meta: ContainerMeta, sandbox: JournalSubject | undefined): JournalSubject {
  const name = meta.config.metadata?.name;
  return {
    sandboxId: meta.facts.sandboxId,
    ...sandbox,
    containerId: meta.id,
    ...(name === undefined ? {} : { containerName: name }),
  };
}
