import { readFile } from 'node:fs/promises';
import { listPids, processIdentity } from '../../src/linux/procfs.ts';
import { markedProcesses } from '../support/leak-probes.ts';

/** Proportional set sizes in MB. */
export interface Memory {
  /** The daemon and the processes that it has started for itself. */
  readonly daemon: number;
  /** What each container or pod has beside its own processes. */
  readonly monitors: number;
}

const KIB_PER_MB = 1024;

/** Of a daemon and of the monitors whose short name is `monitors` and that carry the daemon's instance id. */
export async function pssOf(daemonPid: number, monitors: RegExp, instance: string): Promise<Memory> {
  const ofMonitors = (await markedProcesses([instance])).filter(({ comm }) => monitors.test(comm));
  const pids = new Set(ofMonitors.map(({ pid }) => pid));
  const ofDaemon = [daemonPid];
  for (const pid of await listPids()) {
    const identity = pids.has(pid) ? undefined : await processIdentity(pid).catch(() => undefined);
    if (identity?.ppid === daemonPid) ofDaemon.push(pid);
  }
  return { daemon: await sum(ofDaemon), monitors: await sum([...pids]) };
}

async function sum(pids: readonly number[]): Promise<number> {
  let kib = 0;
  for (const pid of pids) {
    const text = await readFile(`/proc/${String(pid)}/smaps_rollup`, 'utf8').catch(() => '');
    kib += Number(/^Pss: +(\d+) kB/m.exec(text)?.[1] ?? 0);
  }
  return kib / KIB_PER_MB;
}
