import type { KubeObject, Resource } from './objects.ts';

/** What is known of each resource beside its shape: its names, whether it lives in a namespace, what may be done with it. */
export interface ResourceInfo {
  readonly resource: Resource;
  readonly kind: KubeObject['kind'];
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly namespaced: boolean;
  /** Whether `status` is written through a path of its own. */
  readonly hasStatus: boolean;
  /** Whether `spec` is counted by `metadata.generation`. */
  readonly hasGeneration: boolean;
}

export const RESOURCES: Readonly<Record<Resource, ResourceInfo>> = {
  pods: {
    resource: 'pods',
    kind: 'Pod',
    singular: 'pod',
    shortNames: ['po'],
    namespaced: true,
    hasStatus: true,
    hasGeneration: true,
  },
  configmaps: {
    resource: 'configmaps',
    kind: 'ConfigMap',
    singular: 'configmap',
    shortNames: ['cm'],
    namespaced: true,
    hasStatus: false,
    hasGeneration: false,
  },
  secrets: {
    resource: 'secrets',
    kind: 'Secret',
    singular: 'secret',
    shortNames: [],
    namespaced: true,
    hasStatus: false,
    hasGeneration: false,
  },
  events: {
    resource: 'events',
    kind: 'Event',
    singular: 'event',
    shortNames: ['ev'],
    namespaced: true,
    hasStatus: false,
    hasGeneration: false,
  },
  namespaces: {
    resource: 'namespaces',
    kind: 'Namespace',
    singular: 'namespace',
    shortNames: ['ns'],
    namespaced: false,
    hasStatus: true,
    hasGeneration: false,
  },
  nodes: {
    resource: 'nodes',
    kind: 'Node',
    singular: 'node',
    shortNames: ['no'],
    namespaced: false,
    hasStatus: true,
    hasGeneration: false,
  },
};

export function isResource(name: string): name is Resource {
  return Object.hasOwn(RESOURCES, name);
}

export function resourceOfKind(kind: string): ResourceInfo | undefined {
  return Object.values(RESOURCES).find((info) => info.kind === kind);
}
