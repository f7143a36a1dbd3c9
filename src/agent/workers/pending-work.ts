import type { PendingWork } from '../../kube/gantry-extensions.ts';
import { mayBeAlive, type PodRuntimeState } from '../pleg/pod-runtime-state.ts';
import type { Waiting } from '../status/container-status.ts';
import type { PodKiller } from '../terminate/pod-killer.ts';
import type { WorkerPhase } from './worker-phase.ts';

export interface PendingInput {
  readonly phase: WorkerPhase;
  readonly state: PodRuntimeState | undefined;
  readonly waiting: ReadonlyMap<string, Waiting>;
  readonly waitingVolumes: readonly string[];
  readonly killer: Pick<PodKiller, 'deadline' | 'problems'> | undefined;
  readonly lastError: string | undefined;
  /** In a row, of the pass that `lastError` is of. */
  readonly failures: number;
}

/** What a pod's worker has not finished, in words for `explain`. */
export function pendingWork(input: PendingInput): PendingWork[] {
  const { phase, killer, lastError } = input;
  const work: PendingWork[] = [
    ...(phase === 'syncing' ? starting(input) : []),
    ...(phase === 'terminating' ? ending(input) : []),
    ...(killer?.problems() ?? []).map(({ container, message, attempts }) => ({
      what: `container ${container}`,
      message: 'could not be stopped, is tried again',
      attempts,
      lastError: message,
    })),
    ...(lastError === undefined
      ? []
      : [
          {
            what: `pod ${phase}`,
            message: 'the last step failed and is tried again',
            attempts: input.failures,
            lastError,
          },
        ]),
  ];
  // The message is shown alone.
  return work.map((one) => ({ ...one, message: `${one.what}: ${one.message}` }));
}

function starting({ waiting, waitingVolumes }: PendingInput): PendingWork[] {
  const containers = [...waiting].map(([container, { reason, message = '' }]) => ({
    what: `container ${container}`,
    message: message === '' ? reason : `${reason}: ${message}`,
  }));
  return [
    ...containers,
    ...waitingVolumes.map((volume) => ({ what: 'volume', message: `is not ready yet: ${volume}` })),
  ];
}

function ending({ state, killer }: PendingInput): PendingWork[] {
  const left = killer === undefined ? '' : `, ${String(killer.deadline.remainingSeconds())} s of grace left`;
  const alive = state?.containers.filter(mayBeAlive) ?? [];
  return alive.map(({ name }) => ({ what: `container ${name}`, message: `is being stopped${left}` }));
}
