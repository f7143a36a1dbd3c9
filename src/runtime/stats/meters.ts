import type { Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import type { CgroupHost } from '../../linux/cgroup-host.ts';
import { CgroupReader } from './cgroup-reader.ts';
import type { CgroupUsage } from './cgroup-usage.ts';
import { ContainerMeter, type ContainerToMeasure } from './container-meter.ts';
import { CpuCollector } from './cpu-collector.ts';
import { CpuWindows } from './cpu-windows.ts';
import { DiskLook } from './disk.ts';
import { LayerUsage, type LayerUsageDeps } from './layer-usage.ts';
import type { MeasuredContainer } from './metrics/measured-container.ts';
import type { InterfaceCounters } from './net-dev.ts';
import { NetworkReader, type NetworkReaderDeps, type PodNetns } from './network-reader.ts';

export interface MetersDeps {
  readonly clock: Clock;
  readonly background: Op;
  readonly host: CgroupHost;
  /** Cgroups of what runs now. */
  readonly running: () => readonly string[];
  /** What containers write is below it. */
  readonly folder: string;
  readonly walkLayer: LayerUsageDeps['walk'];
  readonly readInside: NetworkReaderDeps['readInside'];
}

/** All that is measured, over this host. */
export class Meters {
  readonly layers: LayerUsage;
  readonly #cgroups: CgroupReader;
  readonly #containers: ContainerMeter;
  readonly #networks: NetworkReader;
  readonly #windows: CpuWindows;
  readonly #collector: CpuCollector;

  constructor({ clock, background, host, running, folder, walkLayer, readInside }: MetersDeps) {
    this.#networks = new NetworkReader({ readInside });
    this.layers = new LayerUsage({ clock, background, walk: walkLayer });
    this.#cgroups = new CgroupReader({ clock, background, host });
    this.#containers = new ContainerMeter({ clock, cgroups: this.#cgroups, disk: new DiskLook(clock, folder) });
    this.#windows = new CpuWindows(clock);
    this.#collector = new CpuCollector({
      clock,
      log: background.log,
      windows: this.#windows,
      running,
      totalNs: (path) => this.#cgroups.cpuTotalNs(path),
    });
  }

  start(): void {
    this.#collector.start();
  }

  close(): void {
    this.#collector.close();
  }

  /** Of the cgroup and all below it. */
  async processes(path: string): Promise<number> {
    return (await this.#cgroups.pids(path)).length;
  }

  /** All that the field's metrics tell of a container. Undefined when its cgroup is gone. */
  container(container: ContainerToMeasure): Promise<MeasuredContainer | undefined> {
    return this.#containers.measure(container);
  }

  /** Undefined when the namespace is gone. */
  network(op: Op, netns: PodNetns): Promise<InterfaceCounters[] | undefined> {
    return this.#networks.counters(op, netns);
  }

  /** Undefined when there is no such cgroup. `ageMs`: since when it is there. */
  async cgroup(
    path: string,
    ageMs: number,
  ): Promise<{ readonly usage: CgroupUsage; readonly nanoCores: bigint | undefined } | undefined> {
    const usage = await this.#cgroups.usage(path);
    if (usage === undefined) return undefined;
    return { usage, nanoCores: this.#windows.rate(path, usage.cpu.totalNs, ageMs) };
  }
}
