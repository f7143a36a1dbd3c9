import { join } from 'node:path';
import { cgroupPath, deepestFirst, readCgroupFile } from './cgroup-files.ts';
import type { CgroupHost } from './cgroup-host.ts';

/** A directory of one tree that a cgroup path stands for. */
export interface Place {
  readonly root: string;
  readonly directory: string;
  readonly controllers: readonly string[];
}

/** What cgroup paths stand for on this host: one directory in each tree. */
export class CgroupPlaces {
  readonly host: CgroupHost;

  constructor(host: CgroupHost) {
    this.host = host;
  }

  all(path: string): Place[] {
    const clean = cgroupPath(path);
    const trees = [...this.host.v1, ...(this.host.unified === undefined ? [] : [this.host.unified])];
    return trees.map(({ mountPoint, controllers }) => ({
      root: mountPoint,
      directory: join(mountPoint, clean),
      controllers,
    }));
  }

  /** On v1 a new cpuset is empty and takes no process. */
  needsCpuset({ root, controllers }: Place): boolean {
    return controllers.includes('cpuset') && root !== this.host.unified?.mountPoint;
  }

  /** In the tree of that controller; undefined where the host has none. */
  of(path: string, controller: string): Place | undefined {
    return this.all(path).find((place) => place.controllers.includes(controller));
  }

  /**
   * The same work in each tree, side by side: cgroup v1 has ten of them, and most of a small read is the way to a thread and back. Throws when all
   * have ended, the first tree's error that there is: the others' are the same of other trees.
   */
  async each<T>(path: string, work: (place: Place) => Promise<T>): Promise<T[]> {
    const results = await Promise.allSettled(this.all(path).map(work));
    return results.map((result) => {
      if (result.status === 'rejected') throw result.reason;
      return result.value;
    });
  }

  /** Pids in the cgroup (and below it), over all trees. Empty when it is not there. */
  async procs(path: string, recursive = false): Promise<number[]> {
    const pids = new Set<number>();
    await this.each(path, async (place) => {
      for (const directory of recursive ? await deepestFirst(place.directory) : [place.directory]) {
        const text = await readCgroupFile(join(directory, 'cgroup.procs'));
        // 0: a process of a pid namespace that we cannot see into.
        for (const line of text?.split('\n') ?? []) if (Number(line) > 0) pids.add(Number(line));
      }
    });
    return [...pids].sort((a, b) => a - b);
  }
}
