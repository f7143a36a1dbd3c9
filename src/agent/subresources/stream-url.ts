import type { Op } from '../../lib/abort.ts';
import { invalidArgument, notImplemented } from '../../lib/errors.ts';
import type {
  PodAttachRequest,
  PodExecRequest,
  PodPortForwardRequest,
  PodStreamRequest,
} from '../../kube/streams/pod-streams.ts';
import { readPodState } from '../pleg/read-pod-state.ts';
import type { NodePod } from '../pods/node-pod.ts';
import { containerName, findPod, runningContainer, type FindContainerDeps } from './find-container.ts';

/** Asks the runtime for the URL at which it serves a stream of one of our pods. */
export async function podStreamUrl(op: Op, deps: FindContainerDeps, request: PodStreamRequest): Promise<string> {
  const pod = await findPod(op, deps, request);
  switch (request.kind) {
    case 'exec':
      return await execUrl(op, deps, pod, request);
    case 'attach':
      return await attachUrl(op, deps, pod, request);
    case 'portforward':
      return await portForwardUrl(op, deps, pod, request);
  }
}

async function execUrl(op: Op, deps: FindContainerDeps, pod: NodePod, request: PodExecRequest): Promise<string> {
  const { id } = await runningContainer(op, deps, pod, containerName(pod, request.container));
  const { command, stdin, stdout, stderr, tty } = request;
  const { url } = await served(deps, 'exec')(op, { containerId: id, cmd: [...command], stdin, stdout, stderr, tty });
  return url;
}

async function attachUrl(op: Op, deps: FindContainerDeps, pod: NodePod, request: PodAttachRequest): Promise<string> {
  const name = containerName(pod, request.container);
  const { id } = await runningContainer(op, deps, pod, name);
  const { stdin, stdout, stderr } = request;
  // Whether there is a terminal was settled when the container was made. Only a client that insists on a stream for stderr, which stays empty
  // then, is told otherwise: CRI knows no terminal with a stderr.
  const tty = !stderr && pod.spec.containers.some((container) => container.name === name && container.tty === true);
  const { url } = await served(deps, 'attach')(op, { containerId: id, stdin, stdout, stderr, tty });
  return url;
}

async function portForwardUrl(
  op: Op,
  deps: FindContainerDeps,
  pod: NodePod,
  { ports = [] }: PodPortForwardRequest,
): Promise<string> {
  const { sandboxes } = await readPodState(op, deps.runtime, deps.agentId, pod.uid);
  const sandbox = sandboxes.find(({ ready }) => ready);
  if (sandbox === undefined) {
    const phase = pod.object.status?.phase ?? 'Pending';
    throw invalidArgument(`unable to forward port because pod is not running. Current status=${phase}`);
  }
  const { url } = await served(deps, 'portForward')(op, { podSandboxId: sandbox.id, port: [...ports] });
  return url;
}

type StreamCall = 'exec' | 'attach' | 'portForward';

function served<C extends StreamCall>(
  { runtime }: FindContainerDeps,
  call: C,
): NonNullable<FindContainerDeps['runtime'][C]> {
  const method = runtime[call];
  if (method === undefined) throw notImplemented(`this runtime has no ${call}`);
  return method.bind(runtime) as NonNullable<FindContainerDeps['runtime'][C]>;
}
