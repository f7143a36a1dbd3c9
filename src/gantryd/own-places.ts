import { basename, join } from 'node:path';
import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { failedPrecondition } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { namesIn } from '../lib/may-be-gone.ts';
import { Cgroups, detectCgroups } from '../linux/cgroups.ts';
import { bootId } from '../linux/procfs.ts';
import { SystemdUnits } from '../linux/systemd-units.ts';
import { isOwnCgroup, ownCgroups, type CgroupSettings } from '../runtime/cgroup-layout.ts';
import { isOurNetns } from '../runtime/sandbox/plan-sandbox.ts';
import { RuntimePaths } from '../runtime/store/paths.ts';
import { Claims } from './claims.ts';
import type { Closers } from './closers.ts';
import { endEmptySlice } from './end-empty-slice.ts';
import { endStrays } from './end-strays.ts';
import { makeOwnFolders } from './own-folders.ts';
import { joinOwnScope } from './own-scope.ts';
import { noteDriver, type SettledConfig } from './settle-driver.ts';

export interface OwnPlacesDeps {
  readonly config: SettledConfig;
  readonly clock: Clock;
  readonly log: Log;
  readonly closers: Closers;
}

const LAST_STEP_MS = 5_000;

/** The folders, and what keeps other daemons out of them and of all else that is this Gantry's alone. */
export async function takeOwnPlaces({ config, clock, closers }: OwnPlacesDeps): Promise<void> {
  await makeOwnFolders(config);
  closers.add('claims', await Claims.take(config, await bootId()), async (claims) => {
    await claims.release(await isNothingLeft(config, clock).catch(() => false));
  });
  await noteDriver(config);
}

/** The daemon's cgroup. Not before the places are taken: one of that name may be another daemon's, and what runs in it would be ended. */
export async function takeOwnCgroup({ config, clock, log, closers }: OwnPlacesDeps): Promise<void> {
  closers.add('cgroups', await joinOwnCgroup(config, clock, log), (cgroups) =>
    leaveNoCgroup({ signal: AbortSignal.timeout(LAST_STEP_MS), log }, config, cgroups),
  );
}

/** Out of the cgroup of whoever started us: the end of a login session must not be ours, nor its limits. */
export async function joinOwnCgroup(config: CgroupSettings, clock: Clock, log: Log): Promise<Cgroups> {
  const host = await detectCgroups();
  if (host.unusable !== undefined) throw failedPrecondition(host.unusable);
  const cgroups = new Cgroups({ clock, host });
  const op = { signal: new AbortController().signal, log };
  const { scope, daemon } = ownCgroups(config);
  if (scope === undefined) {
    await cgroups.ensureParent(config.cgroupParent);
    await cgroups.create(daemon);
  }
  const strays = await endStrays(op, { clock, cgroups }, daemon);
  if (strays > 0) log.info({ strays }, 'waited for what an earlier gantryd had at work when it was killed');
  if (scope === undefined) await cgroups.joinSelf(daemon);
  else await joinOwnScope(op, { clock, cgroups, units: new SystemdUnits() }, { scope, daemon });
  return cgroups;
}

/** With no pod left there is nothing to keep: the last daemon takes its own cgroups away, so that `npm stop` leaves none. */
async function leaveNoCgroup(op: Op, config: SettledConfig, cgroups: Cgroups): Promise<void> {
  if (await hasPodCgroups(config, cgroups)) return;
  const { daemon } = ownCgroups(config);
  await cgroups.leave(daemon);
  const units = new SystemdUnits();
  // Its scope has ended with that.
  if (config.cgroupDriver === 'systemd') await units.stop(op, basename(config.cgroupParent));
  else await endEmptySlice(op, { cgroups, units }, config.cgroupParent);
  await cgroups.remove(op, config.cgroupParent);
}

/** Every pod has a cgroup here, whether a process of it runs or not. */
async function hasPodCgroups(config: SettledConfig, cgroups: Pick<Cgroups, 'children'>): Promise<boolean> {
  return (await cgroups.children(config.cgroupParent)).some(
    (name) => !isOwnCgroup(config, join(config.cgroupParent, name)),
  );
}

/** Nothing on this machine that a daemon of another root could take for its own leftovers. Asked once we let go of everything. */
async function isNothingLeft(config: SettledConfig, clock: Clock): Promise<boolean> {
  if (await hasPodCgroups(config, new Cgroups({ clock, host: await detectCgroups() }))) return false;
  const { sandboxes, containers, exits } = new RuntimePaths(config.root, config.state);
  for (const folder of [sandboxes, containers, exits.written]) if ((await namesIn(folder)).length > 0) return false;
  const { netnsDir, instance, podsDir, runtimeOnly } = config;
  if ((await namesIn(netnsDir)).some((name) => isOurNetns(name, instance))) return false;
  return runtimeOnly || !(await namesIn(podsDir)).some((name) => !name.endsWith('.lock'));
}
