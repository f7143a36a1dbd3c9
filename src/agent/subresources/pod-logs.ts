import { join } from 'node:path';
import type { Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { invalidArgument, notFound } from '../../lib/errors.ts';
import { parseRfc3339 } from '../../lib/rfc3339.ts';
import type { LogOptions } from '../../kube/gantry-extensions.ts';
import { readPodState } from '../pleg/read-pod-state.ts';
import { hasExited, lastExitedOf, latestOf, type RuntimeContainer } from '../pleg/pod-runtime-state.ts';
import type { NodePod } from '../pods/node-pod.ts';
import type { PodPaths } from '../pods/paths.ts';
import { readLogs } from '../logs/read-logs.ts';
import { containerName, findPod, type FindContainerDeps } from './find-container.ts';

export interface PodLogsDeps extends FindContainerDeps {
  readonly clock: Clock;
  readonly paths: PodPaths;
}

/** What a container of a pod wrote. */
export async function* podLogs(op: Op, deps: PodLogsDeps, options: LogOptions): AsyncGenerator<Uint8Array> {
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

async function runToShow(
  op: Op,
  deps: PodLogsDeps,
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

async function isAlive(op: Op, deps: PodLogsDeps, pod: NodePod, containerId: string): Promise<boolean> {
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
