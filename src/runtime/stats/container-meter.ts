import type { Clock } from '../../lib/clock.ts';
import type { CgroupReader } from './cgroup-reader.ts';
import type { DeviceIo } from './cgroup-detail.ts';
import { BlockDevices, type DiskLook } from './disk.ts';
import type { MeasuredContainer } from './metrics/measured-container.ts';
import { countOpenFiles, openFilesLimit } from './process-files.ts';

export interface ContainerToMeasure {
  readonly cgroupPath: string;
  /** The container's first process. */
  readonly pid: number;
  readonly startedAtWallMs: number;
  /** What it has written, if that is known. */
  readonly writtenBytes?: number;
}

export interface ContainerMeterDeps {
  readonly clock: Clock;
  readonly cgroups: Pick<CgroupReader, 'detail' | 'pids'>;
  readonly disk: DiskLook;
}

/** Gathers all that the metrics of a container are told from. */
export class ContainerMeter {
  readonly #deps: ContainerMeterDeps;
  readonly #devices = new BlockDevices();

  constructor(deps: ContainerMeterDeps) {
    this.#deps = deps;
  }

  /** Undefined when its cgroup is gone. */
  async measure(container: ContainerToMeasure): Promise<MeasuredContainer | undefined> {
    const { clock, cgroups, disk } = this.#deps;
    const { cgroupPath, pid, startedAtWallMs, writtenBytes } = container;
    const [cgroup, pids, diskFound] = await Promise.all([
      cgroups.detail(cgroupPath),
      cgroups.pids(cgroupPath),
      disk.look().catch(() => undefined),
    ]);
    if (cgroup === undefined) return undefined;
    // A process that is not in the cgroup (any more) is a stranger by now.
    const limit = pids.includes(pid) ? await openFilesLimit(pid) : undefined;
    return {
      cgroup,
      processes: pids.length,
      openFiles: await countOpenFiles(pids),
      ...(limit === undefined ? {} : { openFilesLimit: limit }),
      ...(diskFound === undefined ? {} : { disk: diskFound }),
      ...(writtenBytes === undefined ? {} : { writtenBytes: BigInt(writtenBytes) }),
      deviceNames: await this.#namesOf(cgroup.io),
      startedAtWallMs,
      nowWallMs: clock.wallMs(),
    };
  }

  async #namesOf(devices: readonly DeviceIo[]): Promise<ReadonlyMap<string, string>> {
    const names = devices.map(async ({ major, minor }) => {
      return [`${String(major)}:${String(minor)}`, await this.#devices.nameOf(major, minor)] as const;
    });
    return new Map(await Promise.all(names));
  }
}
