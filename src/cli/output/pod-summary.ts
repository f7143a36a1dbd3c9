import type { Pod } from '../../kube/objects.ts';

/** Containers that are ready, of all that the pod wants: `1/2`. */
export function readyCount(pod: Pod): string {
  const ready = (pod.status?.containerStatuses ?? []).filter((status) => status.ready).length;
  return `${ready}/${pod.spec.containers.length}`;
}

export function restartCount(pod: Pod): number {
  return (pod.status?.containerStatuses ?? []).reduce((sum, status) => sum + status.restartCount, 0);
}

/** When a container was last restarted, as RFC 3339. */
export function lastRestart(pod: Pod): string | undefined {
  return (pod.status?.containerStatuses ?? [])
    .map((status) => status.lastState?.terminated?.finishedAt)
    .filter((time) => time !== undefined)
    .sort()
    .at(-1);
}

/**
 * The one word that `get pods` shows: the phase, unless a container or the pod's deletion says more (`CrashLoopBackOff`,
 * `ImagePullBackOff`, `Error`, `Terminating`).
 */
export function podStatusWord(pod: Pod): string {
  if (pod.metadata.deletionTimestamp !== undefined) return 'Terminating';
  let word = pod.status?.reason ?? pod.status?.phase ?? 'Unknown';
  let running = false;
  // From the last to the first, so that the first container that has something to say has the last word.
  for (const status of [...(pod.status?.containerStatuses ?? [])].reverse()) {
    const waiting = status.state?.waiting?.reason;
    const terminated = status.state?.terminated;
    if (waiting !== undefined && waiting !== '') word = waiting;
    else if (terminated !== undefined) {
      if (terminated.reason !== undefined && terminated.reason !== '') word = terminated.reason;
      else word = terminated.signal === undefined ? `ExitCode:${terminated.exitCode}` : `Signal:${terminated.signal}`;
    } else if (status.state?.running !== undefined && status.ready) running = true;
  }
  // A pod of which one container has completed while another runs is running.
  if (word === 'Completed' && running) {
    return (pod.status?.conditions ?? []).some((c) => c.type === 'Ready' && c.status === 'True')
      ? 'Running'
      : 'NotReady';
  }
  return word;
}
