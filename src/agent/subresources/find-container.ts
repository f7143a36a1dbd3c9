import type { Op } from '../../lib/abort.ts';
import { invalidArgument } from '../../lib/errors.ts';
import type { RuntimeService } from '../../cri/services.ts';
import type { KubeClient } from '../../kube/client.ts';
import { readPodState } from '../pleg/read-pod-state.ts';
import { latestOf, type RuntimeContainer } from '../pleg/pod-runtime-state.ts';
import { toNodePod, type NodePod } from '../pods/node-pod.ts';

/** From the names that a client gives to what the runtime has of them. */

export interface FindContainerDeps {
  readonly kube: Pick<KubeClient, 'get'>;
  readonly runtime: RuntimeService;
  readonly agentId: string;
}

/** Throws NotFound. */
export async function findPod(
  op: Op,
  deps: Pick<FindContainerDeps, 'kube'>,
  key: { namespace: string; name: string },
): Promise<NodePod> {
  return toNodePod(await deps.kube.get(op, 'pods', { namespace: key.namespace, name: key.name }));
}

/** The one that is named, or the pod's only one. Throws InvalidArgument. */
export function containerName(pod: NodePod, wanted: string | undefined): string {
  const names = pod.spec.containers.map(({ name }) => name);
  if (wanted !== undefined && wanted !== '') {
    if (names.includes(wanted)) return wanted;
    throw invalidArgument(`container ${wanted} is not valid for pod ${pod.name}: it has ${names.join(', ')}`);
  }
  const [only] = names;
  if (names.length === 1 && only !== undefined) return only;
  throw invalidArgument(`a container name must be specified for pod ${pod.name}, choose one of: [${names.join(' ')}]`);
}

/** The run of a container in which a command can be executed. Throws InvalidArgument if it does not run, with what it does instead. */
export async function runningContainer(
  op: Op,
  deps: FindContainerDeps,
  pod: NodePod,
  name: string,
): Promise<RuntimeContainer> {
  const container = latestOf(await readPodState(op, deps.runtime, deps.agentId, pod.uid), name);
  if (container?.state.kind === 'running') return container;
  const which = `container "${name}" in pod "${pod.name}"`;
  const waiting = pod.object.status?.containerStatuses?.find((status) => status.name === name)?.state?.waiting;
  if (waiting !== undefined || container === undefined || container.state.kind === 'created') {
    throw invalidArgument(`${which} is waiting to start: ${waiting?.reason ?? 'ContainerCreating'}`);
  }
  const { state } = container;
  const how = state.kind === 'exited' ? `it ended with exit code ${state.exitCode}` : `its state is unknown`;
  throw invalidArgument(`${which} is not running: ${how}`);
}
