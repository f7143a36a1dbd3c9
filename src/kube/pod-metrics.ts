import type { Op } from '../lib/abort.ts';

/** What `kubectl top` reads (metrics.k8s.io/v1beta1). */
export const METRICS_GROUP = 'metrics.k8s.io';
export const METRICS_VERSION = 'v1beta1';
export const METRICS_API_VERSION = `${METRICS_GROUP}/${METRICS_VERSION}`;

/** What one pod's containers use. */
export interface PodMetrics {
  readonly kind: 'PodMetrics';
  readonly apiVersion: typeof METRICS_API_VERSION;
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly creationTimestamp: string;
  };
  /** RFC 3339; the end of the window. */
  readonly timestamp: string;
  /** Over which processor time is told: `10s`. */
  readonly window: string;
  readonly containers: readonly ContainerMetrics[];
}

export interface ContainerMetrics {
  readonly name: string;
  /** Quantities: `12345678n` processors, `2048Ki` of memory that cannot be had back without hurting. */
  readonly usage: { readonly cpu: string; readonly memory: string };
}

export interface PodMetricsRequest {
  /** Absent: all. */
  readonly namespace?: string;
  /** Of one pod; with its namespace. */
  readonly name?: string;
  readonly labelSelector?: string;
}

export interface PodMetricsReader {
  /** Of the pods that run, in no order; one whose processor time has no window yet is left out. Throws NotFound for a name that has none. */
  podMetrics(op: Op, request: PodMetricsRequest): Promise<readonly PodMetrics[]>;
}
