import { join } from 'node:path';
import type { Clock } from '../../lib/clock.ts';
import { deepestFirst, readCgroupFile, words } from '../../linux/cgroup-files.ts';
import type { CgroupHost } from '../../linux/cgroup-host.ts';
import { CgroupPlaces } from '../../linux/cgroup-places.ts';
import type { CgroupUsage } from './cgroup-usage.ts';
import { usageV1, V1_USAGE_FILES } from './cgroup-v1.ts';
import { usageV2, V2_USAGE_FILES } from './cgroup-v2.ts';
import type { CgroupText, WantedFiles } from './wanted-files.ts';

/** Reads what cgroups have used. Kernel memory, never a disk: no file here can hang on a container's state. */
export class CgroupReader {
  readonly #clock: Clock;
  readonly #places: CgroupPlaces;

  constructor({ clock, host }: { readonly clock: Clock; readonly host: CgroupHost }) {
    this.#clock = clock;
    this.#places = new CgroupPlaces(host);
  }

  /** Undefined when there is no such cgroup. */
  async usage(path: string): Promise<CgroupUsage | undefined> {
    const isV2 = this.#places.host.mode === 'v2';
    const text = await this.#read(path, isV2 ? V2_USAGE_FILES : V1_USAGE_FILES);
    return isV2 ? usageV2(text, this.#clock.wallMs()) : usageV1(text, this.#clock.wallMs());
  }

  /** How many processes are in it and below. */
  async processes(path: string): Promise<number> {
    // Each process is in every tree: one tells all.
    const place = this.#places.of(path, 'pids') ?? this.#places.all(path)[0];
    let count = 0;
    for (const directory of place === undefined ? [] : await deepestFirst(place.directory)) {
      count += words(await readCgroupFile(join(directory, 'cgroup.procs'))).length;
    }
    return count;
  }

  async #read(path: string, wanted: WantedFiles): Promise<CgroupText> {
    const texts = new Map<string, string>();
    const reading = Object.entries(wanted).flatMap(([controller, files]) => {
      const directory = this.#directory(path, controller);
      if (directory === undefined) return [];
      return files.map(async (file) => {
        const text = await readCgroupFile(join(directory, file));
        if (text !== undefined) texts.set(file, text);
      });
    });
    await Promise.all(reading);
    return (_controller, file) => texts.get(file);
  }

  #directory(path: string, controller: string): string | undefined {
    const place = controller === '' ? this.#places.all(path).at(-1) : this.#places.of(path, controller);
    return place?.directory;
  }
}
