import type { KubeClient } from '../kube/client.ts';
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

/** `given`, or the pod's default container, which is told of on stderr when the pod has several. */
export async function chooseContainer(
  context: CliContext,
  kube: Pick<KubeClient, 'get'>,
  request: { readonly namespace: string; readonly name: string; readonly container?: string },
): Promise<string | undefined> {
  if (request.container !== undefined) return request.container;
  const { namespace, name } = request;
  const chosen = defaultContainer(await kube.get(context.op, 'pods', { namespace, name }));
  if (chosen?.notice !== undefined) await line(context.err, chosen.notice);
  return chosen?.name;
}
