import type { ImageImport } from '../lib/image-import.ts';
import type { JournalEntry } from '../journal/journal.ts';
import type { Op } from '../lib/abort.ts';
import type { DoctorReport } from '../lib/doctor.ts';
import type { ObjectState } from '../lib/object-state.ts';
import type { KubeClient } from './client.ts';
import type { PodMetricsReader } from './pod-metrics.ts';
import type { PodStreams } from './streams/pod-streams.ts';

/** In the answer to an apply that has left the object as it was. Kubernetes has no word for it, and of a race nobody else knows. */
export const UNCHANGED_HEADER = 'gantry-unchanged';

/**
 * What Gantry's API answers beside Kubernetes' objects. The daemon hands implementations to the API server; the HTTP
 * client has the same interfaces, so a command does not see which side it talks to.
 */

export interface LogOptions {
  readonly namespace: string;
  readonly name: string;
  /** May be left out when the pod has one container. */
  readonly container?: string;
  readonly follow?: boolean;
  readonly previous?: boolean;
  readonly timestamps?: boolean;
  /** Lines from the end; absent: all. */
  readonly tailLines?: number;
  readonly sinceSeconds?: number;
  /** RFC 3339. */
  readonly sinceTime?: string;
  readonly limitBytes?: number;
}

export interface PodSubresources {
  /** Fails before its first chunk with NotFound or InvalidArgument; ends early when the op's signal fires. */
  logs(op: Op, options: LogOptions): AsyncIterable<Uint8Array>;
}

export interface ExplainRequest {
  readonly namespace: string;
  readonly name: string;
  /** One life of several pods that had the name. Absent: the present or the last one. */
  readonly uid?: string;
}

export interface ExplainContainerRequest {
  readonly namespace: string;
  /** A container id or an unambiguous beginning of one, `POD/CONTAINER`, or a container's name if only one pod has it. */
  readonly container: string;
}

/** Something that is not finished and is retried. */
export interface PendingWork {
  readonly what: string;
  readonly message: string;
  /** RFC 3339 */
  readonly since?: string;
  readonly attempts?: number;
  readonly lastError?: string;
  /** RFC 3339: when it is tried again. */
  readonly nextAttempt?: string;
}

export interface Explanation {
  readonly uid?: string;
  /** Oldest first. */
  readonly entries: readonly JournalEntry[];
  readonly pending: readonly PendingWork[];
  /** The sandboxes and containers that there are of it, oldest first. */
  readonly objects: readonly ObjectState[];
}

export interface ImageSummary {
  readonly id: string;
  readonly tags: readonly string[];
  readonly digests: readonly string[];
  readonly sizeBytes: number;
  readonly pinned?: boolean;
}

/** What is known of one image. */
export interface ImageDetails extends ImageSummary {
  /** RFC 3339. */
  readonly storedAt: string;
  readonly manifestDigest?: string;
  /** From the bottom up; sizes are those of the unpacked files. */
  readonly layers: readonly { readonly diffId: string; readonly digest: string; readonly sizeBytes: number }[];
  /** The image's configuration as it came: an object of the OCI image specification. */
  readonly config: unknown;
}

export type ImageProgress =
  | {
      readonly kind: 'progress';
      /** What moves: a layer's digest, a file's name. */
      readonly item: string;
      readonly status: string;
      readonly doneBytes?: number;
      readonly totalBytes?: number;
    }
  | { readonly kind: 'done'; readonly image: ImageSummary };

export interface ImagePullRequest {
  readonly reference: string;
  readonly username?: string;
  readonly password?: string;
}

export interface StopRequest {
  readonly namespace: string;
  /** A container id or an unambiguous beginning of one, `POD/CONTAINER`, or a container's name if only one pod has it. */
  readonly container: string;
  /** How long it may take before SIGKILL. Absent: the pod's grace period. */
  readonly timeoutSeconds?: number;
  /** Name or number, sent instead of the container's own. */
  readonly signal?: string;
}

export interface StopOutcome {
  readonly containerId: string;
  readonly pod: string;
  readonly container: string;
}

export interface GantryExtensions extends PodMetricsReader {
  explain(op: Op, request: ExplainRequest): Promise<Explanation>;
  explainContainer(op: Op, request: ExplainContainerRequest): Promise<Explanation>;
  /** What of this Gantry's is on the machine without an owner, or has one and is missing; with `fix`, puts that right. */
  doctor(op: Op, request: { readonly fix: boolean }): Promise<DoctorReport>;
  /** Resolves when the container has ended. */
  stop(op: Op, request: StopRequest): Promise<StopOutcome>;
  listImages(op: Op): Promise<readonly ImageSummary[]>;
  /** By name, id, or the unambiguous beginning of an id. Throws NotFound. */
  inspectImage(op: Op, reference: string): Promise<ImageDetails>;
  /** The last items are `done`, one for each image; a failure throws. */
  pullImage(op: Op, request: ImagePullRequest): AsyncIterable<ImageProgress>;
  importImage(op: Op, request: ImageImport): AsyncIterable<ImageProgress>;
  /** Ids and tags that went. Throws NotFound, and FailedPrecondition for an image in use unless it is forced. */
  removeImage(op: Op, reference: string, options?: { readonly force?: boolean }): Promise<readonly string[]>;
}

/** Kubernetes' version object; `gitVersion` carries Gantry's own after the plus sign. */
export interface ServerVersion {
  readonly major: string;
  readonly minor: string;
  readonly gitVersion: string;
}

/** Everything that `gantry` asks its daemon, over one address. */
export interface ApiConnection {
  readonly kube: KubeClient;
  readonly gantry: GantryExtensions & PodSubresources;
  readonly streams: PodStreams;
  /** What the server says of itself (`/version`). */
  serverVersion(op: Op): Promise<ServerVersion>;
  /** Ends open watches and streams. */
  close(): Promise<void>;
}
