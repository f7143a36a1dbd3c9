import { mkdir, rmdir, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { errnoOf, isKind, notFound, unavailable } from '../lib/errors.ts';
import { CgroupFreezer } from './cgroup-freezer.ts';
import type { CgroupHost } from './cgroup-host.ts';
import { CgroupKiller } from './cgroup-killer.ts';
import { CgroupLimits } from './cgroup-limits.ts';
import { CgroupOomKills } from './cgroup-oom-kills.ts';
import { CgroupPlaces, type Place } from './cgroup-places.ts';
import { resourceWrites, type CgroupResources } from './cgroup-resources.ts';
import { fromNodeError } from './errno.ts';
import { describeProcesses } from './procfs.ts';
import { childrenOf, deepestFirst, inheritCpuset, readCgroupFile, words, writeCgroupFile } from './cgroup-files.ts';

export { detectCgroups, type CgroupHost } from './cgroup-host.ts';
export { isCgroupPath } from './cgroup-files.ts';
export type { CgroupResources } from './cgroup-resources.ts';

export interface CgroupsDeps {
  readonly clock: Clock;
  readonly host: CgroupHost;
}

// A dying process leaves its cgroup a moment after it is gone from the lists.
const RMDIR_ATTEMPTS = 10;
const RMDIR_PAUSE_MS = 20;

/**
 * Cgroups by path (`/gantry-<instance>/pod<uid>`), the same on every layout: on v1 and hybrid a path stands for one
 * directory in each tree. Reads and writes here are of kernel memory, never of a disk.
 */
export class Cgroups {
  readonly #clock: Clock;
  readonly #places: CgroupPlaces;
  readonly #freezer: CgroupFreezer;
  readonly #killer: CgroupKiller;
  readonly #oomKills: CgroupOomKills;
  /** Of cgroups in which processes run. */
  readonly limits: CgroupLimits;
  readonly host: CgroupHost;

  constructor({ clock, host }: CgroupsDeps) {
    this.#clock = clock;
    this.#places = new CgroupPlaces(host);
    this.#freezer = new CgroupFreezer(clock, this.#places);
    this.#killer = new CgroupKiller(clock, this.#places, this.#freezer);
    this.#oomKills = new CgroupOomKills(this.#places);
    this.limits = new CgroupLimits(this.#places);
    this.host = host;
  }

  /** Makes a cgroup whose children can be limited: on v2 its controllers are enabled for them, top-down. */
  async ensureParent(path: string): Promise<void> {
    await this.create(path);
    if (this.host.mode === 'v2')
      for (const place of this.#places.all(path)) await this.#enableDown(place, place.directory);
  }

  /** Makes the cgroup and the missing ones above it; one that is there already is fine. Sets the limits given. */
  async create(path: string, resources: CgroupResources = {}): Promise<void> {
    await this.#places.each(path, async (place) => {
      if (this.host.mode === 'v2') await this.#enableDown(place, dirname(place.directory));
      await mkdir(place.directory, { recursive: true }).catch((error: unknown) => {
        throw fromNodeError(error, `make cgroup ${place.directory}`);
      });
      if (this.#places.needsCpuset(place)) await inheritCpuset(place.root, place.directory);
    });
    await this.setResources(path, resources);
  }

  /**
   * Makes a cgroup for some of the processes of its parent, in each tree in which that is there, without limits of its own. False: the
   * parent is in no tree any more; it is not made anew. On v2 a bare directory: handing controllers down from a cgroup that has processes
   * would turn it into a threaded domain, whose children take no process.
   */
  async createBelow(path: string): Promise<boolean> {
    const made = await this.#places.each(path, async (place) => {
      try {
        await mkdir(place.directory);
      } catch (error) {
        if (errnoOf(error) === 'ENOENT') return false;
        if (errnoOf(error) !== 'EEXIST') throw fromNodeError(error, `make cgroup ${place.directory}`);
      }
      if (this.#places.needsCpuset(place)) await inheritCpuset(place.root, place.directory);
      return true;
    });
    return made.includes(true);
  }

  async setResources(path: string, resources: CgroupResources): Promise<void> {
    for (const { controller, file, value } of resourceWrites(this.host.mode, resources)) {
      const place = this.#places.of(path, controller);
      // A controller that this kernel lacks was reported by detectCgroups.
      if (place !== undefined) await writeCgroupFile(join(place.directory, file), value);
    }
  }

  /** In any tree. */
  async exists(path: string): Promise<boolean> {
    for (const place of this.#places.all(path)) if ((await childrenOf(place.directory)) !== undefined) return true;
    return false;
  }

  /** Names of the cgroups directly below, over all trees. Empty when it is not there. */
  async children(path: string): Promise<string[]> {
    const found = await this.#places.each(path, ({ directory }) => childrenOf(directory));
    return [...new Set(found.flatMap((children) => children ?? []).map((child) => basename(child)))].sort();
  }

  /** Takes the cgroup and all below it away. Kills nothing: Unavailable, with `details.pids`, while processes are in it. */
  async remove(op: Op, path: string): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      let busy: unknown;
      await this.#places.each(path, async (place) => {
        for (const directory of await deepestFirst(place.directory)) {
          try {
            await rmdir(directory);
          } catch (error) {
            if (errnoOf(error) === 'ENOENT') continue;
            if (errnoOf(error) !== 'EBUSY') throw fromNodeError(error, `remove cgroup ${directory}`);
            busy = error;
          }
        }
      });
      if (busy === undefined) return;
      const pids = await this.procs(path, true);
      if (pids.length > 0 || attempt >= RMDIR_ATTEMPTS) {
        throw unavailable(`cgroup ${path} is busy: ${await describeProcesses(pids)}`, {
          cause: busy,
          details: { pids, path },
        });
      }
      await this.#clock.sleep(RMDIR_PAUSE_MS, op.signal);
    }
  }

  /**
   * Takes away, as {@link remove}, what {@link createBelow} has made. It stays, empty, until its parent goes when an OOM kill would be
   * forgotten with it and no other whose name begins with `prefix` tells of one; see {@link CgroupOomKills.isNeeded}.
   */
  async removeBelow(op: Op, path: string, prefix: string): Promise<void> {
    if (!(await this.#oomKills.isNeeded(path, prefix))) await this.remove(op, path);
  }

  /** Pids in the cgroup (and below it), over all trees. Empty when it is not there. */
  procs(path: string, recursive = false): Promise<number[]> {
    return this.#places.procs(path, recursive);
  }

  /** SIGKILL to everything in it; see {@link CgroupKiller.killAll}. */
  killAll(op: Op, path: string): Promise<void> {
    return this.#killer.killAll(op, path);
  }

  /** See {@link CgroupFreezer.freeze}. */
  freeze(path: string): Promise<void> {
    return this.#freezer.freeze(path);
  }

  /** See {@link CgroupFreezer.thaw}. */
  thaw(path: string): Promise<void> {
    return this.#freezer.thaw(path);
  }

  isFrozen(path: string): Promise<boolean> {
    return this.#freezer.isFrozen(path);
  }

  /** How many processes in it and below the kernel has killed for want of memory; see {@link CgroupOomKills}. NotFound without a cgroup. */
  async oomKillCount(path: string): Promise<number> {
    const kills = await this.#oomKills.count(path);
    if (kills === undefined) throw notFound(`cgroup ${path}: no such memory cgroup`);
    return kills;
  }

  /** Puts a process into the (existing) cgroup in every tree. NotFound when the process or the cgroup is gone. */
  async moveProcess(path: string, pid: number): Promise<void> {
    await this.#places.each(path, ({ directory }) => writeCgroupFile(join(directory, 'cgroup.procs'), String(pid)));
  }

  async joinSelf(path: string): Promise<void> {
    await this.create(path);
    await this.moveProcess(path, process.pid);
  }

  /**
   * Puts every process of the cgroup into the root of every tree, so that the cgroup can be removed. Only for a cgroup whose
   * processes are our own: ourselves, and helpers that end with us but not in the same moment.
   */
  async leave(path: string): Promise<void> {
    const trees = [...this.host.v1, ...(this.host.unified === undefined ? [] : [this.host.unified])];
    for (const pid of await this.procs(path)) {
      for (const { mountPoint } of trees) {
        try {
          await writeCgroupFile(join(mountPoint, 'cgroup.procs'), String(pid));
        } catch (error) {
          // A helper that has ended meanwhile.
          if (!isKind(error, 'NotFound')) throw error;
        }
      }
    }
  }

  /** v2: a controller reaches a cgroup only if each one above hands it down. */
  async #enableDown(place: Place, directory: string): Promise<void> {
    if (directory.length < place.root.length) return;
    if (directory !== place.root) await this.#enableDown(place, dirname(directory));
    await mkdir(directory, { recursive: true });
    const offered = words(await readCgroupFile(join(directory, 'cgroup.controllers')));
    const enabled = words(await readCgroupFile(join(directory, 'cgroup.subtree_control')));
    for (const controller of offered) {
      if (enabled.includes(controller)) continue;
      // One that cannot be handed down (cpu with real-time processes about) must not take the others with it.
      await writeFile(join(directory, 'cgroup.subtree_control'), `+${controller}`).catch(() => undefined);
    }
  }
}
