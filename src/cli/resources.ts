import { invalidArgument } from '../lib/errors.ts';
import type { Resource } from '../kube/objects.ts';

interface ResourceNames {
  readonly resource: Resource;
  readonly singular: string;
  readonly aliases: readonly string[];
  readonly namespaced: boolean;
}

export const RESOURCES: readonly ResourceNames[] = [
  { resource: 'pods', singular: 'pod', aliases: ['po'], namespaced: true },
  { resource: 'configmaps', singular: 'configmap', aliases: ['cm'], namespaced: true },
  { resource: 'secrets', singular: 'secret', aliases: [], namespaced: true },
  { resource: 'events', singular: 'event', aliases: ['ev'], namespaced: true },
  { resource: 'namespaces', singular: 'namespace', aliases: ['ns'], namespaced: false },
  { resource: 'nodes', singular: 'node', aliases: ['no'], namespaced: false },
];

export function resourceNamed(name: string): ResourceNames {
  const wanted = name.toLowerCase();
  const found = RESOURCES.find((r) => r.resource === wanted || r.singular === wanted || r.aliases.includes(wanted));
  if (found === undefined) {
    throw invalidArgument(
      `the server doesn't have a resource type "${name}" (there are ${RESOURCES.map((r) => r.resource).join(', ')})`,
    );
  }
  return found;
}

export function singularOf(resource: Resource): string {
  return RESOURCES.find((r) => r.resource === resource)?.singular ?? resource;
}

/** One resource, and the names asked for: none means all. */
export interface ResourceRequest {
  readonly resource: Resource;
  readonly namespaced: boolean;
  readonly names: readonly string[];
}

/** What `all` stands for in kubectl: what runs, and not what configures it. */
const ALL: readonly Resource[] = ['pods'];

/** Whether several kinds are asked for, so that each object is shown with its own. */
export function namesSeveralKinds(args: readonly string[], requests: readonly ResourceRequest[]): boolean {
  return requests.length > 1 || args[0] === 'all';
}

/** Reads kubectl's forms: `pods`, `pod web db`, `pod/web configmap/app`, `pods,configmaps`, `all`. */
export function parseResourceArgs(args: readonly string[]): ResourceRequest[] {
  const [first, ...rest] = args;
  if (first === undefined) {
    throw invalidArgument(
      `you must name a kind of resource, for example 'pods' (there are ${RESOURCES.map((r) => r.resource).join(', ')})`,
    );
  }
  if (args.some((arg) => arg.includes('/'))) {
    const requests = new Map<Resource, { resource: Resource; namespaced: boolean; names: string[] }>();
    for (const arg of args) {
      const [kind, name, ...more] = arg.split('/');
      if (kind === undefined || kind === '' || name === undefined || name === '' || more.length > 0) {
        throw invalidArgument(`'${arg}' is not of the form KIND/NAME: with one KIND/NAME all arguments must be so`);
      }
      const { resource, namespaced } = resourceNamed(kind);
      const request = requests.get(resource) ?? { resource, namespaced, names: [] };
      request.names.push(name);
      requests.set(resource, request);
    }
    return [...requests.values()];
  }
  const kinds = first.split(',').flatMap((kind): readonly string[] => (kind === 'all' ? ALL : [kind]));
  if (first === 'all' && rest.length > 0) throw invalidArgument("names cannot follow 'all': use KIND/NAME");
  if (kinds.length > 1 && rest.length > 0) {
    throw invalidArgument('names cannot follow several kinds of resources: use KIND/NAME');
  }
  return kinds.map((kind) => {
    const { resource, namespaced } = resourceNamed(kind);
    return { resource, namespaced, names: rest };
  });
}
