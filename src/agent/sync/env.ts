import type { ConfigMap, Container, EnvVarSource, Secret } from '../../kube/objects.ts';
import { quantityToMilli, quantityToNumber } from '../../kube/quantity.ts';
import type { NodePod } from '../pods/node-pod.ts';
import { ConfigError } from './config-error.ts';
import { expand } from './expand.ts';

/** A ConfigMap or Secret that a container or a volume names. */
export interface Reference {
  readonly kind: 'configmaps' | 'secrets';
  readonly name: string;
}

/** The referenced objects that exist, by `kind/name`. */
export class References {
  readonly #found: ReadonlyMap<string, ConfigMap | Secret>;

  constructor(found: ReadonlyMap<string, ConfigMap | Secret> = new Map()) {
    this.#found = found;
  }

  static keyOf(reference: Reference): string {
    return `${reference.kind}/${reference.name}`;
  }

  /**
   * The keys that can be variables, with their bytes, or undefined when the object does not exist. A ConfigMap's
   * binaryData is for files alone, as in Kubernetes: its zero bytes would keep a container from starting.
   */
  texts(reference: Reference): Map<string, Buffer> | undefined {
    const object = this.#found.get(References.keyOf(reference));
    if (object === undefined) return undefined;
    const encoding = reference.kind === 'secrets' ? 'base64' : 'utf8';
    return new Map(Object.entries(object.data ?? {}).map(([key, value]) => [key, Buffer.from(value, encoding)]));
  }

  /** Every key with its bytes, or undefined when the object does not exist. */
  data(reference: Reference): ReadonlyMap<string, Buffer> | undefined {
    const object = this.#found.get(References.keyOf(reference));
    const result = this.texts(reference);
    if (object === undefined || result === undefined) return undefined;
    if ('binaryData' in object) {
      for (const [key, value] of Object.entries(object.binaryData ?? {})) result.set(key, Buffer.from(value, 'base64'));
    }
    return result;
  }
}

/** What this machine has for containers that have no limit. */
export interface NodeResources {
  readonly cpuMilli: number;
  readonly memoryBytes: number;
  /** Of the file system that volumes are made on. */
  readonly diskBytes: number;
}

/** What `fieldRef` can ask for beyond the object itself. */
export interface PodFacts {
  readonly nodeName: string;
  readonly hostIps: readonly string[];
  readonly podIps: readonly string[];
  /** What an absent limit reads as in a resourceFieldRef. */
  readonly allocatable: NodeResources;
}

/** Every ConfigMap and Secret that this container's environment needs, each once. */
export function envReferences(container: Container): Reference[] {
  const found = new Map<string, Reference>();
  const add = (kind: Reference['kind'], name: string | undefined): void => {
    if (name !== undefined) found.set(`${kind}/${name}`, { kind, name });
  };
  for (const source of container.envFrom ?? []) {
    add('configmaps', source.configMapRef?.name);
    add('secrets', source.secretRef?.name);
  }
  for (const { valueFrom } of container.env ?? []) {
    add('configmaps', valueFrom?.configMapKeyRef?.name);
    add('secrets', valueFrom?.secretKeyRef?.name);
  }
  return [...found.values()];
}

const ENV_NAME = /^[-._a-zA-Z][-._a-zA-Z0-9]*$/;

export interface BuiltEnv {
  readonly variables: ReadonlyMap<string, Buffer>;
  /** Keys of an envFrom source that cannot be names of variables, and were left out. */
  readonly skipped: readonly string[];
}

/**
 * A container's environment: envFrom in order, then env in order, later ones winning; `$(NAME)` refers to what came
 * before. Throws ConfigError when something that is not optional is missing.
 */
export function buildEnv(container: Container, pod: NodePod, facts: PodFacts, references: References): BuiltEnv {
  const variables = new Map<string, Buffer>();
  const skipped: string[] = [];
  for (const source of container.envFrom ?? []) {
    const reference = source.configMapRef ?? source.secretRef;
    const kind = source.configMapRef !== undefined ? 'configmaps' : 'secrets';
    if (reference?.name === undefined) continue;
    const data = references.texts({ kind, name: reference.name });
    if (data === undefined) {
      if (reference.optional === true) continue;
      throw missing(kind, reference.name);
    }
    for (const [key, value] of data) {
      const name = `${source.prefix ?? ''}${key}`;
      if (ENV_NAME.test(name)) variables.set(name, value);
      else skipped.push(name);
    }
  }
  for (const { name, value, valueFrom } of container.env ?? []) {
    const found =
      valueFrom === undefined
        ? Buffer.from(expand(value ?? '', (other) => variables.get(other)?.toString('utf8')))
        : valueOf(valueFrom, container, pod, facts, references);
    if (found !== undefined) variables.set(name, found);
  }
  return { variables, skipped };
}

function valueOf(
  from: EnvVarSource,
  container: Container,
  pod: NodePod,
  facts: PodFacts,
  references: References,
): Buffer | undefined {
  if (from.fieldRef !== undefined) return Buffer.from(fieldValue(from.fieldRef.fieldPath, pod, facts));
  if (from.resourceFieldRef !== undefined) {
    const { containerName = '', resource, divisor } = from.resourceFieldRef;
    const asked =
      containerName === '' ? container : pod.spec.containers.find((candidate) => candidate.name === containerName);
    if (asked === undefined) throw new ConfigError(`resourceFieldRef: container ${containerName} not found`);
    return Buffer.from(resourceValue(asked, resource, divisor, facts.allocatable));
  }
  const kind = from.configMapKeyRef !== undefined ? 'configmaps' : 'secrets';
  const reference = from.configMapKeyRef ?? from.secretKeyRef;
  if (reference?.name === undefined) throw new ConfigError('an environment variable has an empty valueFrom');
  const data = references.texts({ kind, name: reference.name });
  const value = data?.get(reference.key);
  if (value !== undefined) return value;
  if (reference.optional === true) return undefined;
  if (data === undefined) throw missing(kind, reference.name);
  throw new ConfigError(
    `couldn't find key ${reference.key} in ${kind === 'secrets' ? 'Secret' : 'ConfigMap'} ${pod.namespace}/${reference.name}`,
  );
}

function missing(kind: Reference['kind'], name: string): ConfigError {
  return new ConfigError(`${kind === 'secrets' ? 'secret' : 'configmap'} "${name}" not found`);
}

/** The value of a downward-API field. Throws ConfigError for a path that does not exist. */
export function fieldValue(path: string, pod: NodePod, facts: PodFacts): string {
  const { metadata, spec } = pod.object;
  const keyed = /^metadata\.(labels|annotations)\['([^']*)'\]$/.exec(path);
  if (keyed !== null) return metadata[keyed[1] as 'labels' | 'annotations']?.[keyed[2] ?? ''] ?? '';
  switch (path) {
    case 'metadata.name':
      return metadata.name;
    case 'metadata.namespace':
      return metadata.namespace;
    case 'metadata.uid':
      return metadata.uid;
    case 'spec.nodeName':
      return facts.nodeName;
    case 'spec.serviceAccountName':
      // The second is the field's old name, and still its alias.
      return spec.serviceAccountName ?? spec.serviceAccount ?? '';
    case 'status.hostIP':
      return facts.hostIps[0] ?? '';
    case 'status.hostIPs':
      return facts.hostIps.join(',');
    case 'status.podIP':
      return facts.podIps[0] ?? '';
    case 'status.podIPs':
      return facts.podIps.join(',');
    default:
      throw new ConfigError(`fieldRef: unsupported fieldPath ${path}`);
  }
}

/** A limit or request as a whole number of `divisor`, rounded up. No limit, or 0, is what the machine has; no request is 0. */
function resourceValue(
  { resources }: Container,
  resource: string,
  divisor: string | undefined,
  allocatable: NodeResources,
): string {
  const [, group, name = ''] = /^(limits|requests)\.(cpu|memory|ephemeral-storage)$/.exec(resource) ?? [];
  if (group === undefined) throw new ConfigError(`resourceFieldRef: unsupported resource ${resource}`);
  const toUnits = name === 'cpu' ? quantityToMilli : quantityToNumber;
  const [limit, request] = [resources?.limits?.[name], resources?.requests?.[name]];
  const given = group === 'limits' ? limit : (request ?? limit);
  const units = given === undefined ? 0 : toUnits(given);
  const size = units === 0 && group === 'limits' ? allocatableOf(name, allocatable) : units;
  // 0 is how the API writes a divisor that was not given.
  const unit = divisor === undefined || quantityToMilli(divisor) === 0 ? '1' : divisor;
  return String(Math.ceil(size / toUnits(unit)));
}

function allocatableOf(name: string, { cpuMilli, memoryBytes, diskBytes }: NodeResources): number {
  if (name === 'cpu') return cpuMilli;
  return name === 'memory' ? memoryBytes : diskBytes;
}
