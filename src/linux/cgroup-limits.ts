import { join } from 'node:path';
import { errnoOf, failedPrecondition, invalidArgument, isKind, notFound, type GantryError } from '../lib/errors.ts';
import { cpusetChanges, orderChanges, reversed, unreclaimableBytes, type CgroupChange } from './cgroup-changes.ts';
import { childrenOf, readCgroupFile, writeCgroupFile } from './cgroup-files.ts';
import type { CgroupPlaces } from './cgroup-places.ts';
import { resourceWrites, type CgroupResources, type CgroupWrite } from './cgroup-resources.ts';
import { sharesToWeight, weightLike } from './cgroup-weight.ts';
import { isCpuList } from './cpu-list.ts';
import { changeOomScores } from './oom-scores.ts';

/** Stands for a controller where it is not a file of the cgroup that is changed but one of each process in it. */
const PROCESSES = 'processes';

/** Changes the limits of a cgroup in which processes run: all of what is asked for, or nothing. */
export class CgroupLimits {
  readonly #places: CgroupPlaces;

  constructor(places: CgroupPlaces) {
    this.#places = places;
  }

  /**
   * What has to be written for `wanted`, with what is there now; nothing is changed. `known` is what the cgroup was made or last changed with.
   * Throws NotFound when the cgroup is gone, FailedPrecondition for a controller that this host lacks or a memory limit below what
   * is in use, InvalidArgument for what cannot be.
   */
  async plan(path: string, wanted: CgroupResources, known: CgroupResources): Promise<CgroupChange[]> {
    const { mode } = this.#places.host;
    const { cpuShares, ...others } = wanted;
    const changed = cpuShares === undefined || cpuShares === known.cpuShares ? others : wanted;
    const weight = mode === 'v2' ? Number(await this.#read(path, 'cpu', 'cpu.weight')) : Number.NaN;
    const weightOf = (shares: number): number =>
      Number.isNaN(weight) ? sharesToWeight(shares) : weightLike(shares, { shares: known.cpuShares, weight });
    const changes: CgroupChange[] = oomScoreChange(path, wanted);
    for (const write of resourceWrites(mode, changed, weightOf)) {
      changes.push(...(await this.#changesOf(path, write)));
    }
    return orderChanges(changes);
  }

  /** In that order, up to the first that is refused: what is thrown says which and why. Those before it stay, for {@link takeBack}. */
  async apply(changes: readonly CgroupChange[]): Promise<void> {
    for (const change of changes) {
      try {
        await this.#write(change);
      } catch (error) {
        // One below that was there for what was executed in it: it comes and goes while the other stays.
        if (isKind(error, 'NotFound') && isBelowOthers(change, changes)) continue;
        throw await this.#explained(change, error);
      }
    }
  }

  /**
   * Whatever part of the changes was made. That a step is refused does not matter where its file says in the end what it said before: one
   * that was never gone forward may be one that cannot be gone back. A cgroup that is gone has no limits any more: a success. Throws for
   * the first file that stays as it is not to be, when all others are done.
   */
  async takeBack(changes: readonly CgroupChange[]): Promise<void> {
    const back = reversed(changes);
    const refusals: unknown[] = [];
    for (const [i, change] of back.entries()) {
      const { path, controller, file, value } = change;
      try {
        await this.#write(change);
      } catch (error) {
        const isLast = !back.slice(i + 1).some((later) => later.path === path && later.file === file);
        const stays = isLast && !isKind(error, 'NotFound') && (await this.#read(path, controller, file)) !== value;
        if (stays) refusals.push(error);
      }
    }
    if (refusals.length > 0) throw refusals[0];
  }

  async #changesOf(path: string, write: CgroupWrite): Promise<CgroupChange[]> {
    const before = await this.#read(path, write.controller, write.file);
    if (before === undefined) {
      if (!(await this.#isThere(path))) throw notFound(`cgroup ${path}: no such cgroup`);
      throw failedPrecondition(`${write.file} cannot be set: this host's cgroups do not have it (${path})`);
    }
    const change = { ...write, path, before };
    if (write.file === 'memory.max') await this.#mustFit(change);
    const isV1Cpuset = write.controller === 'cpuset' && this.#places.host.mode !== 'v2';
    if (!isV1Cpuset) return [change];
    if (!isCpuList(write.value)) {
      throw invalidArgument(`${write.file}: ${JSON.stringify(write.value)} is no list of numbers such as 0-3,5`);
    }
    return cpusetChanges(write.file, write.value, await this.#cpusets(path, write.file));
  }

  /** v2 kills where v1 refuses. */
  async #mustFit({ path, before, value }: CgroupChange): Promise<void> {
    const [was, limit] = [before, value].map((text) => (text === 'max' ? Infinity : Number(text)));
    if (limit === undefined || was === undefined || limit >= was) return;
    const current = Number(await this.#read(path, 'memory', 'memory.current'));
    const used = unreclaimableBytes(current, (await this.#read(path, 'memory', 'memory.stat')) ?? '');
    if (used > limit) throw memoryInUse(limit, used);
  }

  /** Of the cgroup and of all below it, parents first. */
  async #cpusets(path: string, file: string): Promise<{ path: string; now: string }[]> {
    const now = (await this.#read(path, 'cpuset', file)) ?? '';
    const place = this.#places.of(path, 'cpuset');
    const children = place === undefined ? [] : ((await childrenOf(place.directory)) ?? []);
    const below = await Promise.all(children.map((child) => this.#cpusets(child.slice(place?.root.length ?? 0), file)));
    return [{ path, now }, ...below.flat()];
  }

  async #explained({ path, file, value }: CgroupChange, error: unknown): Promise<unknown> {
    if (errnoOf(error) === 'EBUSY' && file.startsWith('memory.')) {
      const used = Number(await this.#read(path, 'memory', 'memory.usage_in_bytes'));
      return memoryInUse(Number(value), used, error);
    }
    if (errnoOf(error) === 'EINVAL' && file.startsWith('cpu.cfs_')) {
      const message = `${file} ${value}: not valid, or more than the pod's own cgroup is given`;
      return invalidArgument(message, { cause: error });
    }
    return error;
  }

  async #read(path: string, controller: string, file: string): Promise<string | undefined> {
    const place = this.#places.of(path, controller);
    if (place === undefined) return undefined;
    return (await readCgroupFile(join(place.directory, file)))?.trim();
  }

  async #isThere(path: string): Promise<boolean> {
    for (const { directory } of this.#places.all(path)) if ((await childrenOf(directory)) !== undefined) return true;
    return false;
  }

  async #write({ path, controller, file, before, value }: CgroupChange): Promise<void> {
    if (controller === PROCESSES) {
      await changeOomScores(() => this.#places.procs(path, true), before, value);
      return;
    }
    const place = this.#places.of(path, controller);
    if (place === undefined) throw failedPrecondition(`${file}: this host has no such controller`);
    // Nothing at all would not be written.
    await writeCgroupFile(join(place.directory, file), value === '' ? '\n' : value);
  }
}

function oomScoreChange(path: string, { oomScoreAdj }: CgroupResources): CgroupChange[] {
  if (oomScoreAdj === undefined) return [];
  const { from, to } = oomScoreAdj;
  return [{ path, controller: PROCESSES, file: 'oom_score_adj', before: String(from), value: String(to) }];
}

function isBelowOthers({ path }: CgroupChange, changes: readonly CgroupChange[]): boolean {
  return changes.some((other) => path.startsWith(`${other.path}/`));
}

function memoryInUse(limit: number, used: number, cause?: unknown): GantryError {
  const message = `memory limit of ${String(limit)} bytes: ${String(used)} are in use and cannot be taken away`;
  return failedPrecondition(message, cause === undefined ? {} : { cause });
}
