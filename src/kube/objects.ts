import type * as core from 'kubernetes-types/core/v1.js';
import type * as meta from 'kubernetes-types/meta/v1.js';

/**
 * The Kubernetes objects of this API. Field for field they are the public v1 types; what differs is said here: the
 * metadata that the API fills in is present, and a few fields are newer than the type package.
 */

export type {
  AppArmorProfile,
  ContainerState,
  EmptyDirVolumeSource,
  EnvVar,
  EnvVarSource,
  HostAlias,
  KeyToPath,
  NodeCondition,
  ObjectReference,
  PodCondition,
  SeccompProfile,
  SecurityContext,
  VolumeMount,
} from 'kubernetes-types/core/v1.js';
export type { Status, StatusCause, StatusDetails } from 'kubernetes-types/meta/v1.js';

type ServerFilled =
  | 'name'
  | 'uid'
  | 'resourceVersion'
  | 'creationTimestamp'
  | 'generation'
  | 'deletionTimestamp'
  | 'deletionGracePeriodSeconds';

/** Metadata as the API hands it out. */
export interface ObjectMeta extends Omit<meta.ObjectMeta, ServerFilled> {
  name: string;
  uid: string;
  /** Opaque to clients by Kubernetes' rules; here a decimal number that only ever grows over all objects. */
  resourceVersion: string;
  /** RFC 3339, whole seconds. */
  creationTimestamp: string;
  /** Grows with each change of `spec`. */
  generation?: number;
  /** Set by a graceful delete: when the object is expected to be gone. */
  deletionTimestamp?: string;
  deletionGracePeriodSeconds?: number;
}

/** Metadata of an object that lives in a namespace. */
export interface NamespacedMeta extends ObjectMeta {
  namespace: string;
}

export interface Lifecycle extends core.Lifecycle {
  /** Signal that ends the container, by name (`SIGTERM`, `SIGRTMIN+3`); overrides the image's. */
  stopSignal?: string;
}
export type LifecycleHandler = core.LifecycleHandler;

export interface Container extends Omit<core.Container, 'lifecycle'> {
  lifecycle?: Lifecycle;
}

/** The files of an image. */
export interface ImageVolumeSource {
  reference?: string;
  pullPolicy?: string;
}

export interface Volume extends core.Volume {
  image?: ImageVolumeSource;
}

export interface PodSecurityContext extends core.PodSecurityContext {
  /** Whether a container has the groups that its image's `/etc/group` puts its user in (`Merge`), or those of the pod alone (`Strict`). */
  supplementalGroupsPolicy?: string;
}

export interface PodSpec extends Omit<core.PodSpec, 'containers' | 'volumes' | 'securityContext'> {
  containers: Container[];
  volumes?: Volume[];
  securityContext?: PodSecurityContext;
}

export interface VolumeMountStatus extends core.VolumeMountStatus {
  /** Of a volume of type `image`: which image it was, by its digest, whatever the tag says by now. */
  volumeStatus?: { image?: { imageRef?: string } };
}

export interface ContainerStatus extends Omit<core.ContainerStatus, 'volumeMounts'> {
  stopSignal?: string;
  /** Whose its first process was when it started. */
  user?: { linux?: { uid: number; gid: number; supplementalGroups?: number[] } };
  volumeMounts?: VolumeMountStatus[];
}

export interface PodStatus extends Omit<core.PodStatus, 'containerStatuses'> {
  containerStatuses?: ContainerStatus[];
  /** The `metadata.generation` that this status is about. */
  observedGeneration?: number;
}

export interface Pod {
  apiVersion: 'v1';
  kind: 'Pod';
  metadata: NamespacedMeta;
  spec: PodSpec;
  status?: PodStatus;
}

export interface ConfigMap {
  apiVersion: 'v1';
  kind: 'ConfigMap';
  metadata: NamespacedMeta;
  data?: Record<string, string>;
  /** base64 */
  binaryData?: Record<string, string>;
  immutable?: boolean;
}

export interface Secret {
  apiVersion: 'v1';
  kind: 'Secret';
  metadata: NamespacedMeta;
  type?: string;
  /** base64. The write-only `stringData` is folded in when the object is stored. */
  data?: Record<string, string>;
  immutable?: boolean;
}

export interface Event extends Omit<core.Event, 'apiVersion' | 'kind' | 'metadata'> {
  apiVersion: 'v1';
  kind: 'Event';
  metadata: NamespacedMeta;
}

export interface Namespace {
  apiVersion: 'v1';
  kind: 'Namespace';
  metadata: ObjectMeta;
  spec?: core.NamespaceSpec;
  status?: core.NamespaceStatus;
}

/** The field's types know less of it. */
export interface NodeRuntimeHandler {
  name: string;
  features: { recursiveReadOnlyMounts: boolean; userNamespaces: boolean };
}

export interface Node {
  apiVersion: 'v1';
  kind: 'Node';
  metadata: ObjectMeta;
  spec?: core.NodeSpec;
  status?: Omit<core.NodeStatus, 'runtimeHandlers'> & {
    /** By name; the empty one is that of pods without a runtime class. */
    runtimeHandlers?: NodeRuntimeHandler[];
    features?: { supplementalGroupsPolicy?: boolean };
  };
}

/** Resource name (as in the URL) to object type. */
export interface ResourceTypes {
  pods: Pod;
  configmaps: ConfigMap;
  secrets: Secret;
  events: Event;
  namespaces: Namespace;
  nodes: Node;
}

export type Resource = keyof ResourceTypes;
export type KubeObject = ResourceTypes[Resource];

/** An object as a client sends it: the API fills in the rest of the metadata. */
export type New<T extends KubeObject> = Omit<T, 'metadata'> & {
  metadata: Partial<T['metadata']>;
  stringData?: Record<string, string>;
};

export interface ObjectList<T> {
  apiVersion: 'v1';
  kind: string;
  metadata: { resourceVersion: string };
  items: T[];
}

/** A bookmark carries nothing but kind and `metadata.resourceVersion`: everything up to there has been sent. */
export type WatchEvent<T> =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: T }
  | {
      readonly type: 'BOOKMARK';
      readonly object: { kind: string; apiVersion: 'v1'; metadata: { resourceVersion: string } };
    };
