import { invalidArgument } from '../lib/errors.ts';
import { isSlice, sliceOfPath, slicePath, unitOfCgroup } from '../linux/systemd-names.ts';
import type { CgroupDriver } from '../runtime/settings.ts';

/** Who makes the cgroups: what may be asked for, and what becomes of it. */

export const DRIVER_CHOICES = ['auto', 'cgroupfs', 'systemd'] as const;
export type CgroupDriverChoice = (typeof DRIVER_CHOICES)[number];

/** What the choice depends on. */
export interface DriverFacts {
  readonly choice: CgroupDriverChoice;
  /** A path, or the name of a slice. */
  readonly cgroupParent: string;
  /** What is noted in the root folder. */
  readonly before?: CgroupDriver;
}

export function isDriverChoice(text: string): text is CgroupDriverChoice {
  return (DRIVER_CHOICES as readonly string[]).includes(text);
}

/** `gantry.slice`, where a path is expected otherwise. */
export function isSliceName(text: unknown): text is string {
  return typeof text === 'string' && !text.includes('/') && isSlice(text);
}

/** Throws InvalidArgument, naming the flag, for a parent that can be none of ours, or none with that driver. */
export function checkCgroupParent(parent: string, choice: CgroupDriverChoice): void {
  if (parent === '/' || parent.split('/').includes('..')) {
    throw invalidArgument(`--cgroup-parent: ${parent} cannot be a parent of our own`);
  }
  const unit = unitOfCgroup(parent);
  if (unit === undefined) return;
  if (choice === 'cgroupfs' || !isSlice(unit)) {
    throw invalidArgument(
      `--cgroup-parent: ${parent} is a unit of systemd's, which needs --cgroup-driver systemd and is a slice there`,
    );
  }
  const path = slicePath(unit);
  if (parent.includes('/') && parent !== path) {
    throw invalidArgument(`--cgroup-parent: the slice ${unit} is at ${path}`);
  }
}

/**
 * Which driver it is, and the parent as a path below the cgroup mount. Pure. `auto` stays with what was, which a kubelet that has asked
 * relies on.
 */
export function decideDriver({ choice, cgroupParent, before }: DriverFacts): {
  readonly driver: CgroupDriver;
  readonly parent: string;
} {
  const slice = unitOfCgroup(cgroupParent);
  const driver = choice !== 'auto' ? choice : slice === undefined ? (before ?? 'cgroupfs') : 'systemd';
  return { driver, parent: driver === 'cgroupfs' ? cgroupParent : slicePath(slice ?? sliceOfPath(cgroupParent)) };
}
