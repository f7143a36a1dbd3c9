import { join } from 'node:path';
import type { Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { failedPrecondition, invalidArgument, notFound } from '../../lib/errors.ts';
import { parseRfc3339 } from '../../lib/rfc3339.ts';
import type { RuntimeService } from '../../cri/services.ts';
import { EXEC_OUTPUT_CAP_BYTES } from '../../cri/exec-output-cap.ts';
import { ExecSyncRequest } from '../../cri/gen/api.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { ExecOutcome, ExecRequest, LogOptions, PodSubresources } from '../../kube/gantry-extensions.ts';
import { readPodState } from '../pleg/read-pod-state.ts';
import { hasExited, lastExitedOf, latestOf, type RuntimeContainer } from '../pleg/pod-runtime-state.ts';
import { toNodePod, type NodePod } from '../pods/node-pod.ts';
import type { PodPaths } from '../pods/paths.ts';
import { readLogs } from './read-logs.ts';

export interface SubresourceDeps {
  readonly kube: Pick<KubeClient, 'get'>;
  readonly runtime: RuntimeService;
  readonly clock: Clock;
  readonly paths: PodPaths;
  readonly agentId: string;
}

/** A pod's logs, and commands in its containers. */
export function podSubresources(deps: SubresourceDeps): PodSubresources {
  return {
    logs: (op, options) => logs(op, deps, options),
    execSync: (op, request) => exec(op, deps, request),
  };
}

async function* logs(op: Op, deps: SubresourceDeps, options: LogOptions): AsyncGenerator<Uint8Array> {
  const pod = await findPod(op, deps, options);
  const name = containerName(pod, options.container);
  const container = await runToShow(op, deps, pod, name, options.previous ?? false);
  const path = join(deps.paths.logs(pod), deps.paths.containerLog(name, container.attempt));
  const sinceWallMs = sinceOf(deps.clock, options);
  yield* readLogs(op, path, {
    ...(options.tailLines === undefined ? {} : { tailLines: options.tailLines }),
    ...(sinceWallMs === undefined ? {} : { sinceWallMs }),
    ...(options.limitBytes === undefined ? {} : { limitBytes: options.limitBytes }),
    timestamps: options.timestamps ?? false,
    ...(options.follow === true && options.previous !== true
      ? { follow: { clock: deps.clock, goesOn: () => isAlive(op, deps, pod, container.id) } }
      : {}),
  });
}

async function exec(op: Op, deps: SubresourceDeps, request: ExecRequest): Promise<ExecOutcome> {
  const pod = await findPod(op, deps, request);
  const name = containerName(pod, request.container);
  const state = await readPodState(op, deps.runtime, deps.agentId, pod.uid);
  const container = latestOf(state, name);
  if (container?.state.kind !== 'running')
    throw failedPrecondition(`container ${name} of pod ${pod.name} is not running`);
  const { exitCode, stdout, stderr } = await deps.runtime.execSync(
    op,
    ExecSyncRequest.fromPartial({
      containerId: container.id,
      cmd: [...request.command],
      timeout: BigInt(request.timeoutSeconds ?? 0),
    }),
  );
  const reached = (stream: Uint8Array): boolean => stream.length >= EXEC_OUTPUT_CAP_BYTES;
  const cutOff = (['stdout', 'stderr'] as const).filter((name) => reached(name === 'stdout' ? stdout : stderr));
  return { exitCode, stdout, stderr, cutOff };
}

async function findPod(op: Op, deps: SubresourceDeps, key: { namespace: string; name: string }): Promise<NodePod> {
  return toNodePod(await deps.kube.get(op, 'pods', { namespace: key.namespace, name: key.name }));
}

function containerName(pod: NodePod, wanted: string | undefined): string {
  const names = pod.spec.containers.map(({ name }) => name);
  if (wanted !== undefined && wanted !== '') {
    if (names.includes(wanted)) return wanted;
    throw invalidArgument(`container ${wanted} is not valid for pod ${pod.name}: it has ${names.join(', ')}`);
  }
  const [only] = names;
  if (names.length === 1 && only !== undefined) return only;
  throw invalidArgument(`a container name must be specified for pod ${pod.name}, choose one of: [${names.join(' ')}]`);
}

async function runToShow(
  op: Op,
  deps: SubresourceDeps,
  pod: NodePod,
  name: string,
  previous: boolean,
): Promise<RuntimeContainer> {
  const state = await readPodState(op, deps.runtime, deps.agentId, pod.uid);
  const latest = latestOf(state, name);
  if (previous) {
    const before = lastExitedOf(state, name, latest?.state.kind === 'running' ? latest : undefined);
    if (before !== undefined && (before.id !== latest?.id || willRestart(pod, before))) return before;
    throw invalidArgument(`previous terminated container "${name}" in pod "${pod.name}" not found`);
  }
  if (latest !== undefined && latest.state.kind !== 'created') return latest;
  const waiting = pod.object.status?.containerStatuses?.find((status) => status.name === name)?.state?.waiting;
  const why = waiting?.reason ?? 'ContainerCreating';
  if (latest === undefined && why === 'ContainerCreating' && pod.deletion !== undefined)
    throw notFound(`container "${name}" has no log any more`);
  throw invalidArgument(`container "${name}" in pod "${pod.name}" is waiting to start: ${why}`);
}

/** In a crash back-off the last run is the previous one: the next has not begun. */
function willRestart(pod: NodePod, run: RuntimeContainer): boolean {
  return pod.spec.restartPolicy !== 'Never' && hasExited(run);
}

async function isAlive(op: Op, deps: SubresourceDeps, pod: NodePod, containerId: string): Promise<boolean> {
  const state = await readPodState(op, deps.runtime, deps.agentId, pod.uid);
  const container = state.containers.find(({ id }) => id === containerId);
  return container !== undefined && !hasExited(container);
}

function sinceOf(clock: Clock, options: LogOptions): number | undefined {
  if (options.sinceSeconds !== undefined) return clock.wallMs() - options.sinceSeconds * 1000;
  if (options.sinceTime === undefined) return undefined;
  const at = parseRfc3339(options.sinceTime);
  if (at === undefined) throw invalidArgument(`sinceTime ${options.sinceTime} is not an RFC 3339 time`);
  return at;
}
