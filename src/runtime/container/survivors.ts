import { messageOf } from '../../lib/errors.ts';
import type { RuntimeContext } from '../context.ts';
import type { ContainerRecord } from '../store/container-record.ts';
import { taskOf } from './state.ts';

/**
 * Who of a container still runs, and what each waits in, in words for a person. Undefined: nobody does. Never throws: whoever asks is
 * about to kill them, and must not be kept from it.
 */
export async function describeSurvivors(
  rt: Pick<RuntimeContext, 'cgroups' | 'processes'>,
  { meta, status }: ContainerRecord,
): Promise<string | undefined> {
  try {
    const pids = await rt.cgroups.procs(meta.facts.cgroupPath, true);
    const task = taskOf(status);
    // Outside its cgroup (a create that was cut short) a number alone may be another process' by now.
    const isOutside =
      task !== undefined && !pids.includes(task.pid) && (await rt.processes.alive(task.pid, task.startTimeTicks));
    const words = await rt.processes.describe(isOutside ? [task.pid, ...pids] : pids);
    return words === '' ? undefined : words;
  } catch (error) {
    return `who is left could not be found out: ${messageOf(error)}`;
  }
}
