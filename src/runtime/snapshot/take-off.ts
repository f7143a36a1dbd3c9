import type { Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { errnoOf, unavailable } from '../../lib/errors.ts';
import { processesUsing, type Holder } from '../../linux/mount-holders.ts';
import { mountsBelow, mountsOn, readMountinfo } from '../../linux/mountinfo.ts';
import type { UnmountOutcome } from '../../linux/mounts.ts';
import { snapshotOfMount } from './snapshot-mount.ts';

export interface TakeOffDeps {
  readonly mounts: {
    unmount(op: Op, target: string, options?: { readonly detach?: boolean }): Promise<UnmountOutcome>;
  };
  readonly clock: Clock;
}

/** Whoever only passes by, as a backup or `du` does, is gone by then. */
const PAUSES_MS = [50, 200, 500];

/**
 * Takes a container's root file system off, whose processes have ended. What is in use even so is detached: it is out of the tree,
 * and goes when they let go of it (FAILURES.md row 5). Returns who they are; undefined when nobody was in the way.
 * Throws Unavailable, naming it, when something else is mounted there or inside: that is somebody's, and is not taken off along with it.
 */
export async function takeOff(op: Op, deps: TakeOffDeps, target: string): Promise<readonly Holder[] | undefined> {
  for (const pauseMs of [...PAUSES_MS, undefined]) {
    const uppermost = mountsOn(await readMountinfo(), target)[0];
    if (uppermost !== undefined && snapshotOfMount(uppermost) === undefined) {
      const { fsType, source } = uppermost;
      throw unavailable(`${target} has ${fsType} of ${source} on it, which somebody else has mounted: it stays`);
    }
    try {
      await deps.mounts.unmount(op, target);
      return undefined;
    } catch (error) {
      if (errnoOf(error) !== 'EBUSY') throw error;
      const inside = mountsBelow(await readMountinfo(), target).map(
        ({ mountPoint, fsType, source }) => `${fsType} of ${source} is mounted on ${mountPoint}`,
      );
      if (inside.length > 0) throw unavailable(`${target} cannot be unmounted: ${inside.join('; ')}`, { cause: error });
    }
    if (pauseMs !== undefined) await deps.clock.sleep(pauseMs, op.signal);
  }
  const holders = await processesUsing(target);
  await deps.mounts.unmount(op, target, { detach: true });
  return holders;
}

export function namesOf(holders: readonly Holder[]): string {
  if (holders.length === 0) return 'somebody who could not be found';
  return holders.map(({ pid, comm }) => `process ${String(pid)}${comm === undefined ? '' : ` (${comm})`}`).join(', ');
}
