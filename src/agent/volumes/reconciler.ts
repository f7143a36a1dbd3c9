import { messageOf } from '../../lib/errors.ts';
import type { Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { PodPaths } from '../pods/paths.ts';
import type { ActualState, ActualVolume, TeardownBlock } from './actual-state.ts';
import { volumeKey, type DesiredState, type DesiredVolume } from './desired-state.ts';
import type { OperationExecutor } from './operation-executor.ts';
import { planVolumes } from './plan-volumes.ts';
import { describeBlockers, type TeardownBlocker, type VolumePlugin } from './plugin.ts';

/** What happened to a volume, for events, journal and whoever waits for it. */
export type VolumeNews =
  | {
      readonly kind: 'mounted';
      readonly volume: DesiredVolume;
      readonly durationMs: number;
      readonly refreshed: boolean;
    }
  | {
      readonly kind: 'mount-failed';
      readonly volume: DesiredVolume;
      readonly message: string;
      /** False when the same thing was said before. */
      readonly isNew: boolean;
    }
  | { readonly kind: 'unmounted'; readonly volume: ActualVolume; readonly durationMs: number }
  | {
      readonly kind: 'blocked';
      readonly volume: ActualVolume;
      readonly block: TeardownBlock;
      /** False when the same thing was said before. */
      readonly isNew: boolean;
    };

export interface ReconcilerDeps {
  readonly desired: DesiredState;
  readonly actual: ActualState;
  readonly executor: OperationExecutor;
  readonly plugins: readonly VolumePlugin[];
  readonly paths: PodPaths;
  readonly mayTearDown: (podUid: string) => boolean;
  readonly clock: Clock;
  readonly log: Log;
  readonly onNews: (news: VolumeNews) => void;
}

const SET_UP_TIMEOUT_MS = 120_000;
/** A teardown may have a hundred thousand files to delete on a slow disk. What hangs in it has budgets of its own. */
const TEAR_DOWN_TIMEOUT_MS = 1_800_000;
/** How soon a changed ConfigMap or Secret is seen in a volume. */
const REFRESH_MS = 60_000;

/** One pass: unmount what nobody wants, then make ready what somebody wants (BEHAVIOUR.md 7). Starts operations, waits for none. */
export function reconcile(deps: ReconcilerDeps): void {
  const plan = planVolumes(deps.desired, deps.actual, deps.mayTearDown, deps.clock.monotonicMs());
  for (const volume of plan.unmount) startUnmount(deps, volume);
  for (const volume of plan.mount) startMount(deps, volume);
}

function startMount(deps: ReconcilerDeps, desired: DesiredVolume): void {
  deps.executor.start({
    key: desired.key,
    name: 'volume_mount',
    timeoutMs: SET_UP_TIMEOUT_MS,
    run: (op) => mount(op, deps, desired),
  });
}

async function mount(op: Op, deps: ReconcilerDeps, desired: DesiredVolume): Promise<boolean> {
  const { pod, volume, plugin } = desired;
  const before = deps.actual.get(pod.uid, volume.name);
  const refreshed = before?.state.kind === 'mounted';
  const base = { podUid: pod.uid, name: volume.name, pluginName: plugin.name };
  const startedMs = deps.clock.monotonicMs();
  // Marked before it begins: if it fails half-way there is something to tear down.
  if (!refreshed) deps.actual.set({ ...before, ...base, state: { kind: 'uncertain' } });
  try {
    const path = await plugin.setUp(op, {
      pod,
      volume,
      directory: deps.paths.volume(pod.uid, plugin.name, volume.name),
      metaDirectory: deps.paths.volumeMeta(pod.uid, plugin.name, volume.name),
    });
    const nowMs = deps.clock.monotonicMs();
    deps.actual.set({ ...base, state: { kind: 'mounted', path, refreshAtMs: nowMs + REFRESH_MS } });
    deps.onNews({ kind: 'mounted', volume: desired, durationMs: nowMs - startedMs, refreshed });
    return true;
  } catch (error) {
    const message = messageOf(error);
    const current = deps.actual.get(pod.uid, volume.name);
    if (current !== undefined) deps.actual.set({ ...current, setUpError: message });
    deps.onNews({ kind: 'mount-failed', volume: desired, message, isNew: before?.setUpError !== message });
    throw error;
  }
}

function startUnmount(deps: ReconcilerDeps, volume: ActualVolume): void {
  const outcome = deps.executor.start({
    key: volumeKey(volume.podUid, volume.name),
    name: 'volume_unmount',
    timeoutMs: TEAR_DOWN_TIMEOUT_MS,
    run: (op) => unmount(op, deps, volume.podUid, volume.name),
  });
  if (outcome === 'started') deps.log.debug({ podUid: volume.podUid, volume: volume.name }, 'UnmountVolume started');
}

async function unmount(op: Op, deps: ReconcilerDeps, podUid: string, name: string): Promise<boolean> {
  const volume = deps.actual.get(podUid, name);
  if (volume === undefined) return true;
  const startedMs = deps.clock.monotonicMs();
  const state =
    volume.state.kind === 'mounted' ? { kind: 'uncertain' as const, path: volume.state.path } : volume.state;
  deps.actual.set({ ...volume, state });
  const blockers = await tearDown(op, deps, volume);
  if (blockers !== undefined) {
    noteBlock(deps, { ...volume, state }, blockers);
    return false;
  }
  deps.actual.delete(podUid, name);
  deps.onNews({ kind: 'unmounted', volume, durationMs: deps.clock.monotonicMs() - startedMs });
  return true;
}

/** Undefined: gone. A teardown that fails blocks as one that meets a mount does: it is said, kept and tried again. */
async function tearDown(
  op: Op,
  deps: ReconcilerDeps,
  volume: ActualVolume,
): Promise<readonly TeardownBlocker[] | undefined> {
  const directory = deps.paths.volume(volume.podUid, volume.pluginName, volume.name);
  const plugin = deps.plugins.find((candidate) => candidate.name === volume.pluginName);
  if (plugin === undefined) {
    return [
      {
        path: directory,
        reason: 'error',
        message: `${directory}: nothing here knows how to tear down a ${volume.pluginName} volume`,
      },
    ];
  }
  try {
    const outcome = await plugin.tearDown(op, {
      podUid: volume.podUid,
      volumeName: volume.name,
      directory,
      metaDirectory: deps.paths.volumeMeta(volume.podUid, volume.pluginName, volume.name),
    });
    return outcome.kind === 'gone' ? undefined : outcome.blockers;
  } catch (error) {
    return [{ path: directory, reason: 'error', message: `${directory}: ${messageOf(error)}` }];
  }
}

function noteBlock(deps: ReconcilerDeps, volume: ActualVolume, blockers: readonly TeardownBlocker[]): void {
  const message = describeBlockers(blockers);
  const before = volume.blocked;
  const block: TeardownBlock = {
    blockers,
    message,
    sinceWallMs: before?.sinceWallMs ?? deps.clock.wallMs(),
    attempts: (before?.attempts ?? 0) + 1,
  };
  const blocked = { ...volume, blocked: block };
  deps.actual.set(blocked);
  deps.onNews({ kind: 'blocked', volume: blocked, block, isNew: before?.message !== message });
}
