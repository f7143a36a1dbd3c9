import { join } from 'node:path';
import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { failedPrecondition } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { namesIn } from '../lib/may-be-gone.ts';
import { Cgroups, detectCgroups } from '../linux/cgroups.ts';
import { bootId } from '../linux/procfs.ts';
import { MONITOR_CGROUP } from '../runtime/host.ts';
import { isOurNetns } from '../runtime/sandbox/plan-sandbox.ts';
import { RuntimePaths } from '../runtime/store/paths.ts';
import { Claims } from './claims.ts';
import type { Closers } from './closers.ts';
import type { GantryConfig } from './config.ts';
import { endStrays } from './end-strays.ts';
import { makeOwnFolders } from './own-folders.ts';

export interface OwnPlacesDeps {
  readonly config: GantryConfig;
  readonly clock: Clock;
  readonly log: Log;
  readonly closers: Closers;
}

const DAEMON_CGROUP = 'daemon';
const OWN_CGROUPS = [DAEMON_CGROUP, MONITOR_CGROUP];
const LAST_STEP_MS = 5_000;

/**
 * The folders, what keeps other daemons out of them and of all else that is this Gantry's alone, and a cgroup. In this order: a cgroup of
 * that name may be another one's, and what runs in it would be ended.
 */
export async function takeOwnPlaces({ config, clock, log, closers }: OwnPlacesDeps): Promise<void> {
  await makeOwnFolders(config);
  closers.add('claims', await Claims.take(config, await bootId()), async (claims) => {
    await claims.release(await isNothingLeft(config, clock).catch(() => false));
  });
  closers.add('cgroups', await joinOwnCgroup(config, clock, log), (cgroups) =>
    leaveNoCgroup({ signal: AbortSignal.timeout(LAST_STEP_MS), log }, config, cgroups),
  );
}

/** Out of the cgroup of whoever started us: the end of a login session must not be ours, nor its limits. */
async function joinOwnCgroup(config: GantryConfig, clock: Clock, log: Log): Promise<Cgroups> {
  const host = await detectCgroups();
  if (host.unusable !== undefined) throw failedPrecondition(host.unusable);
  const cgroups = new Cgroups({ clock, host });
  await cgroups.ensureParent(config.cgroupParent);
  const leaf = join(config.cgroupParent, DAEMON_CGROUP);
  await cgroups.create(leaf);
  const strays = await endStrays({ signal: new AbortController().signal, log }, { clock, cgroups }, leaf);
  if (strays > 0) log.info({ strays }, 'waited for what an earlier gantryd had at work when it was killed');
  await cgroups.joinSelf(leaf);
  return cgroups;
}

/** With no pod left there is nothing to keep: the last daemon takes its own cgroups away, so that `npm stop` leaves none. */
async function leaveNoCgroup(op: Op, config: GantryConfig, cgroups: Cgroups): Promise<void> {
  if (await hasPodCgroups(config, cgroups)) return;
  await cgroups.leave(join(config.cgroupParent, DAEMON_CGROUP));
  await cgroups.remove(op, config.cgroupParent);
}

/** Every pod has a cgroup here, whether a process of it runs or not. */
async function hasPodCgroups({ cgroupParent }: GantryConfig, cgroups: Pick<Cgroups, 'children'>): Promise<boolean> {
  return (await cgroups.children(cgroupParent)).some((name) => !OWN_CGROUPS.includes(name));
}

/** Nothing on this machine that a daemon of another root could take for its own leftovers. Asked once we let go of everything. */
async function isNothingLeft(config: GantryConfig, clock: Clock): Promise<boolean> {
  if (await hasPodCgroups(config, new Cgroups({ clock, host: await detectCgroups() }))) return false;
  const { sandboxes, containers, exits } = new RuntimePaths(config.root, config.state);
  for (const folder of [sandboxes, containers, exits.written]) if ((await namesIn(folder)).length > 0) return false;
  const { netnsDir, instance, podsDir, runtimeOnly } = config;
  if ((await namesIn(netnsDir)).some((name) => isOurNetns(name, instance))) return false;
  return runtimeOnly || !(await namesIn(podsDir)).some((name) => !name.endsWith('.lock'));
}
