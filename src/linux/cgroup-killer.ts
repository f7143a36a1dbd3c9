import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { errnoOf, internal } from '../lib/errors.ts';
import type { CgroupFreezer } from './cgroup-freezer.ts';
import type { CgroupPlaces } from './cgroup-places.ts';
import { fromNodeError } from './errno.ts';
import { openPidfd, type Pidfd } from './pidfd.ts';
import { describeProcesses, processIdentity } from './procfs.ts';
import { SIGKILL } from './signals.ts';

const KILL_PAUSE_MS = 10;
const KILL_PAUSE_MAX_MS = 250;
// A descriptor each.
const KILLED_AT_ONCE = 100;

/** Ends what is in a cgroup: by cgroup.kill where there is one, else process by process while it is frozen. */
export class CgroupKiller {
  readonly #clock: Clock;
  readonly #places: CgroupPlaces;
  readonly #freezer: CgroupFreezer;

  constructor(clock: Clock, places: CgroupPlaces, freezer: CgroupFreezer) {
    this.#clock = clock;
    this.#places = places;
    this.#freezer = freezer;
  }

  /**
   * SIGKILL to everything in the cgroup and below, until nothing is left. Rejects with DeadlineExceeded or whatever the
   * op's signal says, naming who would not die in the log.
   */
  async killAll(op: Op, path: string): Promise<void> {
    let pauseMs = KILL_PAUSE_MS;
    for (;;) {
      const pids = await this.#places.procs(path, true);
      if (pids.length === 0) return;
      if (pids.includes(process.pid)) throw internal(`cgroup ${path} is to be killed but this daemon is in it`);
      await this.#killOnce(path);
      try {
        await this.#clock.sleep(pauseMs, op.signal);
      } catch (error) {
        const left = await this.#places.procs(path, true);
        if (left.length === 0) return;
        op.log.warn({ cgroup: path, left: await describeProcesses(left) }, 'processes outlived SIGKILL');
        throw error;
      }
      pauseMs = Math.min(pauseMs * 2, KILL_PAUSE_MAX_MS);
    }
  }

  async #killOnce(path: string): Promise<void> {
    const { host } = this.#places;
    const unified = host.mode === 'v2' ? host.unified : undefined;
    if (unified !== undefined) {
      try {
        await writeFile(join(unified.mountPoint, path, 'cgroup.kill'), '1');
        return;
      } catch (error) {
        // Before 5.14 there is no such file.
        if (errnoOf(error) !== 'ENOENT' && errnoOf(error) !== 'EACCES')
          throw fromNodeError(error, `kill cgroup ${path}`);
      }
    }
    // Frozen, nothing forks away; but what is in state D does not freeze, and not every kernel can.
    await this.#freezer.freeze(path);
    try {
      const pids = await this.#places.procs(path, true);
      for (let at = 0; at < pids.length; at += KILLED_AT_ONCE) {
        await this.#killListed(path, pids.slice(at, at + KILLED_AT_ONCE));
      }
    } finally {
      // On v1 a frozen process dies only now.
      await this.#freezer.thaw(path);
    }
  }

  /** A pid on a list may be a stranger's by now: one that is still on it after its process was opened is of the cgroup, or has ended. */
  async #killListed(path: string, pids: readonly number[]): Promise<void> {
    const opened: Pidfd[] = [];
    try {
      for (const pid of pids) {
        const identity = await processIdentity(pid);
        const pidfd = identity === undefined ? undefined : openPidfd(identity);
        if (pidfd !== undefined) opened.push(pidfd);
      }
      const still = new Set(await this.#places.procs(path, true));
      for (const pidfd of opened) if (still.has(pidfd.key.pid)) pidfd.signal(SIGKILL);
    } finally {
      for (const pidfd of opened) pidfd.close();
    }
  }
}
