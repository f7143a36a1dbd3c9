import { ociScope } from '../../linux/systemd-names.ts';
import type { OciResources } from './spec.ts';

export interface CgroupChoice {
  /** Below the cgroup mount. */
  readonly cgroupPath: string;
  /** It is a scope's, and systemd is to make it. */
  readonly systemdCgroup?: boolean;
}

/** Where a container is to be, as the specification has it: a path, or what names a scope. */
export function cgroupsPath({ cgroupPath, systemdCgroup }: CgroupChoice): string {
  return systemdCgroup === true ? ociScope(cgroupPath) : cgroupPath;
}

/** crun puts a container into a cgroup below its scope unless it is told not to; then it is where runc has it, too. */
export function cgroupAnnotations({ systemdCgroup }: CgroupChoice): Readonly<Record<string, string>> {
  return systemdCgroup === true ? { 'run.oci.systemd.subgroup': '' } : {};
}

/** systemd limits how many tasks are in a scope unless it is told that there is no limit, which is what not being asked for one means here. */
export function taskLimit(
  { systemdCgroup }: CgroupChoice,
  unified: OciResources['unified'] = {},
): Pick<OciResources, 'pids'> {
  return systemdCgroup === true && !('pids.max' in unified) ? { pids: { limit: -1 } } : {};
}
