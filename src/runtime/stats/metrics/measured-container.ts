import type { CgroupDetail } from '../cgroup-detail.ts';
import type { Disk } from '../disk.ts';
import type { OpenFiles } from '../process-files.ts';

/** All that the metrics of one running container are told from. */
export interface MeasuredContainer {
  readonly cgroup: CgroupDetail;
  readonly processes: number;
  readonly openFiles: OpenFiles;
  /** Soft limit of the container's first process. */
  readonly openFilesLimit?: bigint;
  readonly disk?: Disk;
  /** What the container has written to it. */
  readonly writtenBytes?: bigint;
  /** Of block devices, by `major:minor`. */
  readonly deviceNames: ReadonlyMap<string, string>;
  readonly startedAtWallMs: number;
  readonly nowWallMs: number;
}
