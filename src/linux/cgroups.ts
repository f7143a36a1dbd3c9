import { mkdir, rmdir, writeFile } from 'node:fs/promises';
import { basename, dirname, join, normalize } from 'node:path';
import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { errnoOf, internal, invalidArgument, isKind, notFound, unavailable } from '../lib/errors.ts';
import type { CgroupHost } from './cgroup-host.ts';
import { resourceWrites, type CgroupResources } from './cgroup-resources.ts';
import { fromNodeError } from './errno.ts';
import { SIGKILL } from './signals.ts';
import { openPidfd, type Pidfd } from './pidfd.ts';
import { describeProcesses, processIdentity } from './procfs.ts';
import { childrenOf, deepestFirst, inheritCpuset, readCgroupFile, words, writeCgroupFile } from './cgroup-files.ts';

export { detectCgroups, type CgroupHost } from './cgroup-host.ts';
export type { CgroupResources } from './cgroup-resources.ts';

export interface CgroupsDeps {
  readonly clock: Clock;
  readonly host: CgroupHost;
}

/** A directory of one tree that a cgroup path stands for. */
interface Place {
  readonly root: string;
  readonly directory: string;
  readonly controllers: readonly string[];
}

// A dying process leaves its cgroup a moment after it is gone from the lists.
const RMDIR_ATTEMPTS = 10;
const RMDIR_PAUSE_MS = 20;
const KILL_PAUSE_MS = 10;
const KILL_PAUSE_MAX_MS = 250;
const FREEZE_WAIT_MS = 200;
// A descriptor each.
const KILLED_AT_ONCE = 100;

/**
 * Cgroups by path (`/gantry-<instance>/pod<uid>`), the same on every layout: on v1 and hybrid a path stands for one
 * directory in each tree. Reads and writes here are of kernel memory, never of a disk.
 */
export class Cgroups {
  readonly #clock: Clock;
  readonly #host: CgroupHost;

  constructor({ clock, host }: CgroupsDeps) {
    this.#clock = clock;
    this.#host = host;
  }

  get host(): CgroupHost {
    return this.#host;
  }

  /** Makes a cgroup whose children can be limited: on v2 its controllers are enabled for them, top-down. */
  async ensureParent(path: string): Promise<void> {
    await this.create(path);
    if (this.#host.mode === 'v2')
      for (const place of this.#places(path)) await this.#enableDown(place, place.directory);
  }

  /** Makes the cgroup and the missing ones above it; one that is there already is fine. Sets the limits given. */
  async create(path: string, resources: CgroupResources = {}): Promise<void> {
    for (const place of this.#places(path)) {
      if (this.#host.mode === 'v2') await this.#enableDown(place, dirname(place.directory));
      await mkdir(place.directory, { recursive: true }).catch((error: unknown) => {
        throw fromNodeError(error, `make cgroup ${place.directory}`);
      });
      if (this.#needsCpuset(place)) await inheritCpuset(place.root, place.directory);
    }
    await this.setResources(path, resources);
  }

  /**
   * Makes a cgroup for some of the processes of its parent, in each tree in which that is there, without limits of its own. False: the
   * parent is in no tree any more; it is not made anew. On v2 a bare directory: handing controllers down from a cgroup that has processes
   * would turn it into a threaded domain, whose children take no process.
   */
  async createBelow(path: string): Promise<boolean> {
    let made = false;
    for (const place of this.#places(path)) {
      try {
        await mkdir(place.directory);
      } catch (error) {
        if (errnoOf(error) === 'ENOENT') continue;
        if (errnoOf(error) !== 'EEXIST') throw fromNodeError(error, `make cgroup ${place.directory}`);
      }
      made = true;
      if (this.#needsCpuset(place)) await inheritCpuset(place.root, place.directory);
    }
    return made;
  }

  async setResources(path: string, resources: CgroupResources): Promise<void> {
    for (const { controller, file, value } of resourceWrites(this.#host.mode, resources)) {
      const place = this.#place(path, controller);
      // A controller that this kernel lacks was reported by detectCgroups.
      if (place !== undefined) await writeCgroupFile(join(place.directory, file), value);
    }
  }

  /** In any tree. */
  async exists(path: string): Promise<boolean> {
    for (const place of this.#places(path)) if ((await childrenOf(place.directory)) !== undefined) return true;
    return false;
  }

  /** Names of the cgroups directly below, over all trees. Empty when it is not there. */
  async children(path: string): Promise<string[]> {
    const names = new Set<string>();
    for (const place of this.#places(path)) {
      for (const child of (await childrenOf(place.directory)) ?? []) names.add(basename(child));
    }
    return [...names].sort();
  }

  /** Takes the cgroup and all below it away. Kills nothing: Unavailable, with `details.pids`, while processes are in it. */
  async remove(op: Op, path: string): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      let busy: unknown;
      for (const place of this.#places(path)) {
        for (const directory of await deepestFirst(place.directory)) {
          try {
            await rmdir(directory);
          } catch (error) {
            if (errnoOf(error) === 'ENOENT') continue;
            if (errnoOf(error) !== 'EBUSY') throw fromNodeError(error, `remove cgroup ${directory}`);
            busy = error;
          }
        }
      }
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

  /** Pids in the cgroup (and below it), over all trees. Empty when it is not there. */
  async procs(path: string, recursive = false): Promise<number[]> {
    const pids = new Set<number>();
    for (const place of this.#places(path)) {
      for (const directory of recursive ? await deepestFirst(place.directory) : [place.directory]) {
        const text = await readCgroupFile(join(directory, 'cgroup.procs'));
        // 0: a process of a pid namespace that we cannot see into.
        for (const line of text?.split('\n') ?? []) if (Number(line) > 0) pids.add(Number(line));
      }
    }
    return [...pids].sort((a, b) => a - b);
  }

  /**
   * SIGKILL to everything in the cgroup and below, until nothing is left. Rejects with DeadlineExceeded or whatever the
   * op's signal says, naming who would not die in the log.
   */
  async killAll(op: Op, path: string): Promise<void> {
    let pauseMs = KILL_PAUSE_MS;
    for (;;) {
      const pids = await this.procs(path, true);
      if (pids.length === 0) return;
      if (pids.includes(process.pid)) throw internal(`cgroup ${path} is to be killed but this daemon is in it`);
      await this.#killOnce(path);
      try {
        await this.#clock.sleep(pauseMs, op.signal);
      } catch (error) {
        const left = await this.procs(path, true);
        if (left.length === 0) return;
        op.log.warn({ cgroup: path, left: await describeProcesses(left) }, 'processes outlived SIGKILL');
        throw error;
      }
      pauseMs = Math.min(pauseMs * 2, KILL_PAUSE_MAX_MS);
    }
  }

  /** Asks the kernel to stop every process in it from running, and waits a moment for it to be so. */
  async freeze(path: string): Promise<void> {
    await this.#setFrozen(path, true);
    const until = this.#clock.monotonicMs() + FREEZE_WAIT_MS;
    while (!(await this.isFrozen(path)) && this.#clock.monotonicMs() < until) await this.#clock.sleep(KILL_PAUSE_MS);
  }

  /** Lets it run again, and every cgroup below that was frozen by itself (FAILURES.md row 23). */
  async thaw(path: string): Promise<void> {
    await this.#setFrozen(path, false);
  }

  async isFrozen(path: string): Promise<boolean> {
    const freezer = this.#freezer(path);
    if (freezer === undefined) return false;
    const text = await readCgroupFile(
      freezer.v2 ? join(freezer.directory, 'cgroup.events') : join(freezer.directory, 'freezer.state'),
    );
    return freezer.v2 ? /^frozen 1$/m.test(text ?? '') : text?.trim() === 'FROZEN';
  }

  /** How many processes in it (on v2: and below) the kernel has killed for want of memory. Throws NotFound without a cgroup. */
  async oomKillCount(path: string): Promise<number> {
    const place = this.#place(path, 'memory');
    const file = this.#host.mode === 'v2' ? 'memory.events' : 'memory.oom_control';
    const text = place === undefined ? undefined : await readCgroupFile(join(place.directory, file));
    if (text === undefined) throw notFound(`cgroup ${path}: no such memory cgroup`);
    return Number(/^oom_kill (\d+)$/m.exec(text)?.[1] ?? '0');
  }

  /** Puts a process into the (existing) cgroup in every tree. NotFound when the process or the cgroup is gone. */
  async moveProcess(path: string, pid: number): Promise<void> {
    for (const place of this.#places(path)) await writeCgroupFile(join(place.directory, 'cgroup.procs'), String(pid));
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
    const trees = [...this.#host.v1, ...(this.#host.unified === undefined ? [] : [this.#host.unified])];
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

  async #killOnce(path: string): Promise<void> {
    const unified = this.#host.mode === 'v2' ? this.#host.unified : undefined;
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
    await this.freeze(path);
    try {
      const pids = await this.procs(path, true);
      for (let at = 0; at < pids.length; at += KILLED_AT_ONCE) {
        await this.#killListed(path, pids.slice(at, at + KILLED_AT_ONCE));
      }
    } finally {
      // On v1 a frozen process dies only now.
      await this.thaw(path);
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
      const still = new Set(await this.procs(path, true));
      for (const pidfd of opened) if (still.has(pidfd.key.pid)) pidfd.signal(SIGKILL);
    } finally {
      for (const pidfd of opened) pidfd.close();
    }
  }

  async #setFrozen(path: string, frozen: boolean): Promise<void> {
    const freezer = this.#freezer(path);
    if (freezer === undefined) return;
    const directories = frozen ? [freezer.directory] : (await deepestFirst(freezer.directory)).reverse();
    for (const directory of directories) {
      const [file, value] = freezer.v2
        ? ['cgroup.freeze', frozen ? '1' : '0']
        : ['freezer.state', frozen ? 'FROZEN' : 'THAWED'];
      try {
        await writeFile(join(directory, file), value);
      } catch (error) {
        if (errnoOf(error) !== 'ENOENT') throw fromNodeError(error, `${frozen ? 'freeze' : 'thaw'} cgroup ${path}`);
      }
    }
  }

  #freezer(path: string): { directory: string; v2: boolean } | undefined {
    if (this.#host.mode === 'v2') {
      const [place] = this.#places(path);
      return place === undefined ? undefined : { directory: place.directory, v2: true };
    }
    const place = this.#place(path, 'freezer');
    return place === undefined ? undefined : { directory: place.directory, v2: false };
  }

  #places(path: string): Place[] {
    const clean = cgroupPath(path);
    const trees = [...this.#host.v1, ...(this.#host.unified === undefined ? [] : [this.#host.unified])];
    return trees.map(({ mountPoint, controllers }) => ({
      root: mountPoint,
      directory: join(mountPoint, clean),
      controllers,
    }));
  }

  /** On v1 a new cpuset is empty and takes no process. */
  #needsCpuset({ root, controllers }: Place): boolean {
    return controllers.includes('cpuset') && root !== this.#host.unified?.mountPoint;
  }

  #place(path: string, controller: string): Place | undefined {
    return this.#places(path).find((place) => place.controllers.includes(controller));
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

/** An absolute path inside the tree, without `..`. */
function cgroupPath(path: string): string {
  const clean = normalize(path);
  if (!path.startsWith('/') || clean === '/' || path.split('/').includes('..')) {
    throw invalidArgument(`${path}: not a cgroup path of ours`);
  }
  return clean.replace(/\/+$/, '');
}
