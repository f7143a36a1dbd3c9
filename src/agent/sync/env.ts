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

/** What `fieldRef` can ask for beyond the object itself. */
export interface PodFacts {
  readonly nodeName: string;
  readonly hostIps: readonly string[];
  readonly podIps: readonly string[];
  /** What an absent limit reads as in a resourceFieldRef. */
  readonly allocatable: { readonly cpuMilli: number; readonly memoryBytes: number };
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
    const { resource, divisor } = from.resourceFieldRef;
    return Buffer.from(resourceValue(container, resource, divisor, facts));
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
      return spec.serviceAccountName ?? '';
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

function resourceValue(container: Container, resource: string, divisor: string | undefined, facts: PodFacts): string {
  const match = /^(limits|requests)\.(cpu|memory)$/.exec(resource);
  if (match === null) throw new ConfigError(`resourceFieldRef: unsupported resource ${resource}`);
  const name = match[2] ?? '';
  const resources = container.resources;
  const given =
    match[1] === 'limits' ? resources?.limits?.[name] : (resources?.requests?.[name] ?? resources?.limits?.[name]);
  const unit = (divisor === undefined ? 0 : quantityToMilli(divisor) / 1000) || 1;
  const absent = match[1] === 'limits';
  if (name === 'cpu') {
    const milli = given === undefined ? (absent ? facts.allocatable.cpuMilli : 0) : quantityToMilli(given);
    return String(Math.ceil(milli / (unit * 1000)));
  }
  const bytes = given === undefined ? (absent ? facts.allocatable.memoryBytes : 0) : quantityToNumber(given);
  return String(Math.ceil(bytes / unit));
}
