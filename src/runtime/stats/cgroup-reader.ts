import { join } from 'node:path';
import type { Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { Slots } from '../../lib/slots.ts';
import { deepestFirst, readCgroupFile, words } from '../../linux/cgroup-files.ts';
import type { CgroupHost } from '../../linux/cgroup-host.ts';
import { CgroupOomKills } from '../../linux/cgroup-oom-kills.ts';
import { CgroupPlaces } from '../../linux/cgroup-places.ts';
import { hugePageSizes } from '../../linux/huge-pages.ts';
import type { CgroupDetail } from './cgroup-detail.ts';
import type { CgroupUsage } from './cgroup-usage.ts';
import { cpuTotalNsV1, usageV1, V1_CPU_FILES, V1_USAGE_FILES } from './cgroup-v1.ts';
import { cpuTotalNsV2, usageV2, V2_CPU_FILES, V2_USAGE_FILES } from './cgroup-v2.ts';
import { detailV1, v1DetailFiles } from './detail-v1.ts';
import { detailV2, v2DetailFiles } from './detail-v2.ts';
import type { CgroupText, WantedFiles } from './wanted-files.ts';

const AT_ONCE = 4;

export interface CgroupReaderDeps {
  readonly clock: Clock;
  /** Ends with the daemon. */
  readonly background: Op;
  readonly host: CgroupHost;
}

/** Reads what cgroups have used. Kernel memory, never a disk: no file here can hang on a container's state. */
export class CgroupReader {
  readonly #clock: Clock;
  readonly #background: Op;
  readonly #turns = new Slots(AT_ONCE, { what: 'having its cgroup read' });
  readonly #places: CgroupPlaces;
  readonly #oomKills: CgroupOomKills;
  #askedPageSizes: Promise<readonly string[]> | undefined;

  constructor({ clock, background, host }: CgroupReaderDeps) {
    this.#clock = clock;
    this.#background = background;
    this.#places = new CgroupPlaces(host);
    this.#oomKills = new CgroupOomKills(this.#places);
  }

  /** Undefined when there is no such cgroup. */
  async usage(path: string): Promise<CgroupUsage | undefined> {
    const isV2 = this.#places.host.mode === 'v2';
    const text = await this.#read(path, isV2 ? V2_USAGE_FILES : V1_USAGE_FILES);
    return isV2 ? usageV2(text, this.#clock.wallMs()) : usageV1(text, this.#clock.wallMs());
  }

  /** Nanoseconds on all processors. Undefined when there is no such cgroup. */
  async cpuTotalNs(path: string): Promise<bigint | undefined> {
    const isV2 = this.#places.host.mode === 'v2';
    const text = await this.#read(path, isV2 ? V2_CPU_FILES : V1_CPU_FILES);
    return isV2 ? cpuTotalNsV2(text) : cpuTotalNsV1(text);
  }

  /** All that the field's metrics tell of it. Undefined when there is no such cgroup. */
  async detail(path: string): Promise<CgroupDetail | undefined> {
    const isV2 = this.#places.host.mode === 'v2';
    const sizes = await this.#pageSizes();
    const text = await this.#read(path, isV2 ? v2DetailFiles(sizes) : v1DetailFiles(sizes));
    const takenAtWallMs = this.#clock.wallMs();
    const detail = isV2 ? detailV2(text, takenAtWallMs, sizes) : detailV1(text, takenAtWallMs, sizes);
    const oomKills = await this.#oomKills.count(path);
    return detail === undefined || oomKills === undefined ? detail : { ...detail, oomKills: BigInt(oomKills) };
  }

  /** The processes in it and below. */
  async pids(path: string): Promise<number[]> {
    // Each process is in every tree: one tells all.
    const place = this.#places.of(path, 'pids') ?? this.#places.all(path)[0];
    const pids: number[] = [];
    for (const directory of place === undefined ? [] : await deepestFirst(place.directory)) {
      pids.push(...words(await readCgroupFile(join(directory, 'cgroup.procs'))).map(Number));
    }
    return pids;
  }

  /** Of this host's huge pages, in the words of the kernel's file names. Asked once: they come with the kernel. */
  #pageSizes(): Promise<readonly string[]> {
    this.#askedPageSizes ??= hugePageSizes().catch(() => []);
    return this.#askedPageSizes;
  }

  /** A few cgroups at a time: the pool of threads that reads has the daemon's other work, too. */
  #read(path: string, wanted: WantedFiles): Promise<CgroupText> {
    return this.#turns.run(this.#background, () => this.#readNow(path, wanted));
  }

  async #readNow(path: string, wanted: WantedFiles): Promise<CgroupText> {
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
    if (controller !== '') return this.#places.of(path, controller)?.directory;
    // The v2 tree is the last one.
    return this.#places.host.unified === undefined ? undefined : this.#places.all(path).at(-1)?.directory;
  }
}
