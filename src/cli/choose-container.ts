import { invalidArgument } from '../lib/errors.ts';
import type { Pod } from '../kube/objects.ts';
import { line, type CliContext } from './context.ts';

/** Kubernetes' own annotation: the container that a person means when no container is named. */
const DEFAULT_CONTAINER = 'kubectl.kubernetes.io/default-container';

/** The container that is meant when none is named, and what kubectl says when it had to choose. */
export function defaultContainer(pod: Pod): { readonly name: string; readonly notice?: string } | undefined {
  const names = pod.spec.containers.map(({ name }) => name);
  const marked = pod.metadata.annotations?.[DEFAULT_CONTAINER];
  if (marked !== undefined && names.includes(marked)) return { name: marked };
  const [first] = names;
  if (first === undefined) return undefined;
  if (names.length === 1) return { name: first };
  return { name: first, notice: `Defaulted container "${first}" out of: ${names.join(', ')}` };
}

export interface ContainerChoice {
  readonly namespace: string;
  readonly name: string;
  readonly container?: string;
  /** Says nothing of what it had to choose. */
  readonly quiet: boolean;
}

/**
 * A pod and the name of the container in it that is meant; of the pod's default container it is told on stderr when the pod has several.
 *
 * @param cannot what cannot be done if the pod has ended for good
 * @throws InvalidArgument for such a pod, NotFound
 */
export async function chooseLiveContainer(
  context: CliContext,
  { namespace, name, container, quiet }: ContainerChoice,
  cannot: string,
): Promise<{ readonly pod: Pod; readonly container: string }> {
  const { kube } = await context.api();
  const pod = await kube.get(context.op, 'pods', { namespace, name });
  const phase = pod.status?.phase ?? '';
  if (phase === 'Succeeded' || phase === 'Failed')
    throw invalidArgument(`${cannot} in a completed pod; current phase is ${phase}`);
  if (container !== undefined) return { pod, container };
  const chosen = defaultContainer(pod);
  if (chosen === undefined) throw invalidArgument(`pod ${name} has no containers`);
  if (chosen.notice !== undefined && !quiet) await line(context.err, chosen.notice);
  return { pod, container: chosen.name };
}
