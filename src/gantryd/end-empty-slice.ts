import { basename } from 'node:path';
import type { Op } from '../lib/abort.ts';
import type { Cgroups } from '../linux/cgroups.ts';
import { sliceOfPath, slicePath } from '../linux/systemd-names.ts';
import { isSystemdHere, type SystemdUnits } from '../linux/systemd-units.ts';

export interface EndEmptySliceDeps {
  readonly cgroups: Pick<Cgroups, 'exists' | 'children' | 'procs'>;
  readonly units: Pick<SystemdUnits, 'stop'>;
  /** Whether systemd runs this machine (default: looks). */
  readonly isSystemdHere?: () => Promise<boolean>;
}

/**
 * After a change of the driver to cgroupfs: the slice that was the parent before, as pods that were made in it outlive the change. With anything in
 * it, which may be another Gantry's, it stays.
 */
export async function endEmptySlice(op: Op, deps: EndEmptySliceDeps, cgroupParent: string): Promise<void> {
  const { cgroups, units } = deps;
  if (!(await (deps.isSystemdHere ?? isSystemdHere)())) return;
  const slice = slicePath(sliceOfPath(cgroupParent));
  if (!(await cgroups.exists(slice))) return;
  if ((await cgroups.children(slice)).length > 0 || (await cgroups.procs(slice, true)).length > 0) return;
  await units.stop(op, basename(slice));
}
