import { basename, dirname, join } from 'node:path';
import { childrenOf, deepestFirst, readCgroupFile } from './cgroup-files.ts';
import type { CgroupPlaces } from './cgroup-places.ts';

/**
 * The kernel's count of the processes that it has killed for want of memory. On v2 a cgroup's count has all that ever was below it. On v1
 * it is of the cgroup's own processes only and is lost with the cgroup, whatever limit above it was reached.
 */
export class CgroupOomKills {
  readonly #places: CgroupPlaces;

  constructor(places: CgroupPlaces) {
    this.#places = places;
  }

  /** In the cgroup and below; on v1 without what was there once. Undefined without a memory cgroup. */
  async count(path: string): Promise<number | undefined> {
    const directory = this.#directory(path);
    if (directory === undefined) return undefined;
    if (this.#places.host.mode === 'v2') return await readCount(directory, 'memory.events');
    let sum: number | undefined;
    for (const each of await deepestFirst(directory)) {
      const own = await readOwn(each);
      if (own !== undefined) sum = (sum ?? 0) + own;
    }
    return sum;
  }

  /**
   * Whether the cgroup above might know of no kill any more if this one were removed. Of several below one cgroup whose names begin with
   * `prefix` only the first by name is needed: so two that ask at once cannot each rely on the other, and of many with random names that
   * come and go next to none are kept.
   */
  async isNeeded(path: string, prefix: string): Promise<boolean> {
    const directory = this.#directory(path);
    if (directory === undefined || this.#places.host.mode === 'v2') return false;
    if (((await this.count(path)) ?? 0) === 0) return false;
    if (((await readOwn(dirname(directory))) ?? 0) > 0) return false;
    for (const other of (await childrenOf(dirname(directory))) ?? []) {
      const name = basename(other);
      if (!name.startsWith(prefix) || name >= basename(directory)) continue;
      if (((await this.count(join(dirname(path), name))) ?? 0) > 0) return false;
    }
    return true;
  }

  #directory(path: string): string | undefined {
    return this.#places.of(path, 'memory')?.directory;
  }
}

function readOwn(directory: string): Promise<number | undefined> {
  return readCount(directory, 'memory.oom_control');
}

async function readCount(directory: string, file: string): Promise<number | undefined> {
  const text = await readCgroupFile(join(directory, file));
  return text === undefined ? undefined : Number(/^oom_kill (\d+)$/m.exec(text)?.[1] ?? '0');
}
