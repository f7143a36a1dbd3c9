import { withDeadline, type Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { isKind, unavailable } from '../lib/errors.ts';
import type { CgroupChange } from './cgroup-changes.ts';
import { reversed } from './cgroup-changes.ts';
import type { CgroupResources } from './cgroup-resources.ts';
import type { Cgroups } from './cgroups.ts';
import { describeProcesses } from './procfs.ts';
import { isSlice, unitOfCgroup, wholeOfContainer } from './systemd-names.ts';
import { changeProperties, limitProperties } from './systemd-properties.ts';
import { isSystemdHere, type SystemdUnits } from './systemd-units.ts';

export interface UnitCgroupsDeps {
  readonly clock: Clock;
  readonly cgroups: Cgroups;
  readonly units: Pick<SystemdUnits, 'startSlice' | 'setProperties' | 'stop' | 'list'>;
  /** For what is done in nobody's name: ends with the runtime. */
  readonly background: Op;
  /** Whether systemd runs this machine (default: looks). */
  readonly isSystemdHere?: () => Promise<boolean>;
}

/** systemd makes a slice within milliseconds of the answer. */
const MADE_MS = 10_000;
const LOOK_PAUSE_MS = 5;

/**
 * Making, changing and taking away cgroups by path, whoever they are to be made by: one that is named as a unit is systemd's (its slices and
 * scopes, on cgroup v2), and every change goes by systemd, so that it does not write over it; all others are plain directories. What only
 * reads, kills and freezes asks {@link Cgroups}, for both.
 */
export class UnitCgroups {
  readonly #deps: UnitCgroupsDeps;

  constructor(deps: UnitCgroupsDeps) {
    this.#deps = deps;
  }

  /** A cgroup for others below it, with these limits. There already is a success; the limits are set all the same. */
  async create(op: Op, path: string, limits: CgroupResources): Promise<void> {
    const { cgroups } = this.#deps;
    const unit = unitOfCgroup(path);
    if (unit === undefined || !isSlice(unit)) {
      await cgroups.ensureParent(path);
      await cgroups.setResources(path, limits);
      return;
    }
    await this.#startSlice(op, unit, limits);
    await withDeadline(op, this.#deps.clock, MADE_MS, `waiting for systemd to make ${path}`, async (child) => {
      while (!(await cgroups.exists(path))) await this.#deps.clock.sleep(LOOK_PAUSE_MS, child.signal);
    });
  }

  async #startSlice(op: Op, unit: string, limits: CgroupResources): Promise<void> {
    const { units } = this.#deps;
    const properties = limitProperties(limits);
    try {
      await units.startSlice(op, unit, { description: 'Pod of Gantry', properties });
    } catch (error) {
      if (!isKind(error, 'AlreadyExists')) throw error;
      const [view] = await units.list(op, unit);
      if (view?.activeState !== 'active') throw unavailable(`${unit} is ${view?.activeState ?? 'just going'}`);
      if (properties.length > 0) await units.setProperties(op, unit, properties);
    }
  }

  /**
   * Takes the cgroup and all below it away: of a container's scope also the slice that is the container's own. Kills nothing: Unavailable,
   * with `details.pids`, while processes are in it. Gone is a success.
   */
  async remove(op: Op, path: string): Promise<void> {
    const { cgroups, units } = this.#deps;
    const whole = wholeOfContainer(path);
    const unit = unitOfCgroup(whole);
    if (unit !== undefined && (await this.#hasSystemd())) {
      const pids = await cgroups.procs(whole, true);
      if (pids.length > 0) {
        const message = `cgroup ${whole} is busy: ${await describeProcesses(pids)}`;
        throw unavailable(message, { details: { pids, path: whole } });
      }
      await units.stop(op, unit);
    }
    await cgroups.remove(op, whole);
  }

  /** As {@link Cgroups.oomKillCount}: also of a container whose scope has gone with its last process. */
  oomKillCount(path: string): Promise<number> {
    return this.#deps.cgroups.oomKillCount(wholeOfContainer(path));
  }

  /** In the files, then in what systemd knows. Throws at the first that is refused: those before it are made, and to be taken back. */
  async applyLimits(changes: readonly CgroupChange[]): Promise<void> {
    const { limits } = this.#deps.cgroups;
    await limits.apply(changes);
    await this.#tellUnits(changes);
    // systemd has written what it keeps of it.
    await limits.apply(changes.filter(({ file }) => file === 'cpu.max'));
  }

  /** Whatever part of it was made. Of a cgroup that is gone: a success. Throws when something stays as it is not to be. */
  async takeLimitsBack(changes: readonly CgroupChange[]): Promise<void> {
    try {
      await this.#deps.cgroups.limits.takeBack(changes);
    } finally {
      await this.#tellUnits(reversed(changes));
    }
  }

  async #tellUnits(changes: readonly CgroupChange[]): Promise<void> {
    const { units, background } = this.#deps;
    const byUnit = Map.groupBy(changes, ({ path }) => unitOfCgroup(path));
    for (const [unit, own] of byUnit) {
      const properties = changeProperties(own);
      if (unit === undefined || properties.length === 0 || !(await this.#hasSystemd())) continue;
      try {
        await units.setProperties(background, unit, properties);
      } catch (error) {
        // Gone, and its limits with it.
        if (!isKind(error, 'NotFound')) throw error;
      }
    }
  }

  async #hasSystemd(): Promise<boolean> {
    return await (this.#deps.isSystemdHere ?? isSystemdHere)();
  }
}
