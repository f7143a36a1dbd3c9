import { basename, dirname } from 'node:path';
import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { isKind, unavailable } from '../lib/errors.ts';
import type { Cgroups } from '../linux/cgroups.ts';
import type { SystemdUnits } from '../linux/systemd-units.ts';

export interface OwnScopeDeps {
  readonly clock: Clock;
  readonly cgroups: Pick<Cgroups, 'exists' | 'createBelow' | 'moveProcess'>;
  readonly units: Pick<SystemdUnits, 'startScope' | 'list'>;
}

/** Paths of the scope, and of the daemon's cgroup in it. */
export interface OwnScope {
  readonly scope: string;
  readonly daemon: string;
}

/** A scope that ends while we join it is gone a moment later. */
const ATTEMPTS = 100;
const PAUSE_MS = 50;

/**
 * Puts this process into the daemon's cgroup in its scope of systemd's. Monitors that live keep the scope of an earlier daemon; else it is made
 * anew. It ends with the last process in it, which may be just now: so whether it is there is looked at once more when we are in it.
 */
export async function joinOwnScope(op: Op, deps: OwnScopeDeps, own: OwnScope): Promise<void> {
  const { clock, cgroups } = deps;
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    try {
      if (attempt > 1 || !(await cgroups.exists(own.scope))) await startScope(op, deps, own);
      if (await joined(op, deps, own)) return;
    } catch (error) {
      // It was there and is not any more, or the other way round.
      if (!isKind(error, 'NotFound')) throw error;
    }
    await clock.sleep(PAUSE_MS, op.signal);
  }
  const name = basename(own.scope);
  throw unavailable(`systemd's scope ${name} comes to no rest: systemctl status ${name} says more`);
}

/** One that is there already is a success. */
async function startScope(op: Op, { units }: OwnScopeDeps, { scope }: OwnScope): Promise<void> {
  const slice = basename(dirname(scope));
  try {
    await units.startScope(op, basename(scope), { slice, pid: process.pid, description: 'Gantry and its monitors' });
  } catch (error) {
    if (!isKind(error, 'AlreadyExists')) throw error;
  }
}

async function joined(op: Op, { cgroups, units }: OwnScopeDeps, { scope, daemon }: OwnScope): Promise<boolean> {
  if (!(await cgroups.createBelow(daemon))) return false;
  await cgroups.moveProcess(daemon, process.pid);
  const [view] = await units.list(op, basename(scope));
  return view?.activeState === 'active';
}
