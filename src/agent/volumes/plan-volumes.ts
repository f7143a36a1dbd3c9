import type { ActualState, ActualVolume } from './actual-state.ts';
import type { DesiredState, DesiredVolume } from './desired-state.ts';

export interface VolumePlan {
  /** Carried out first: a volume that moves from a pod that is gone to a new one is free before it is asked for. */
  readonly unmount: readonly ActualVolume[];
  readonly mount: readonly DesiredVolume[];
}

/**
 * What the volumes of this machine need next. Pure: with the plan carried out, the next plan is empty.
 * `mayTearDown` is the gate: true only when no process of the pod can be alive.
 */
export function planVolumes(
  desired: DesiredState,
  actual: ActualState,
  mayTearDown: (podUid: string) => boolean,
  nowMs: number,
): VolumePlan {
  return {
    unmount: actual.all().filter(({ podUid, name }) => !desired.has(podUid, name) && mayTearDown(podUid)),
    mount: desired.all().filter((one) => needsSetUp(actual.get(one.pod.uid, one.volume.name), one, nowMs)),
  };
}

function needsSetUp(volume: ActualVolume | undefined, desired: DesiredVolume, nowMs: number): boolean {
  if (volume?.state.kind !== 'mounted') return true;
  return desired.plugin.refreshes && volume.state.refreshAtMs <= nowMs;
}
