import type { FaultPoints } from '../../lib/fault-points.ts';
import type { CgroupTree, Limits } from '../parts.ts';
import { wayOut, type LimitsIntent } from './limits-intent.ts';

/** Whose limits are changed: a container's, or a whole pod's. */
export interface LimitsSubject<Resources> {
  readonly cgroupPath: string;
  /** What the group has had from us until now. */
  readonly known: Limits;
  readonly wanted: Limits;
  /** What the record will say. */
  readonly to: Resources;
  /** Durable before it returns. */
  intend(intent: LimitsIntent<Resources>): Promise<void>;
  /** Durable before it returns: with `resources` they are what it has from now on, without them it has what it had. */
  settle(resources?: Resources): Promise<void>;
}

interface Deps {
  readonly cgroups: CgroupTree;
  readonly faults: FaultPoints;
}

/**
 * Brings cgroup and record from one set of limits to another, both or neither: the record has the way back before the first file is
 * written, and says that it is done when all of them are. Throws what {@link CgroupTree.planLimits} and `applyLimits` throw.
 */
export async function changeLimits<Resources>(
  { cgroups, faults }: Deps,
  subject: LimitsSubject<Resources>,
): Promise<void> {
  const changes = await cgroups.planLimits(subject.cgroupPath, subject.wanted, subject.known);
  if (changes.length === 0) {
    await subject.settle(subject.to);
    return;
  }
  await subject.intend({ to: subject.to, changes });
  try {
    await faults.reach('update-resources/intended');
    await cgroups.applyLimits(changes);
    await faults.reach('update-resources/applied');
    await subject.settle(subject.to);
  } catch (error) {
    await cgroups.takeLimitsBack(changes);
    await subject.settle();
    throw error;
  }
  await faults.reach('update-resources/recorded');
}

/**
 * Ends an update that an earlier process had begun: see {@link wayOut}. What cannot be finished is taken back. Leaves the intent where it is
 * only when that fails.
 */
export async function endLimitsChange<Resources>(
  { cgroups }: Pick<Deps, 'cgroups'>,
  intent: LimitsIntent<Resources>,
  settle: (resources?: Resources) => Promise<void>,
): Promise<void> {
  const finished =
    wayOut(intent) === 'finish' &&
    (await cgroups.applyLimits(intent.changes).then(
      () => true,
      () => false,
    ));
  if (!finished) await cgroups.takeLimitsBack(intent.changes);
  await (finished ? settle(intent.to) : settle());
}
