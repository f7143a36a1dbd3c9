import { basename, dirname } from 'node:path';
import { isBelow } from '../../../linux/mountinfo.ts';
import { listPids, readCmdline } from '../../../linux/procfs.ts';
import { taskOf } from '../../container/state.ts';
import type { RuntimeContext } from '../../context.ts';
import type { Found } from '../inventory.ts';

/**
 * Monitors and OCI runtimes at work, by the bundle that they name on their command line: one of our folders, or one that a record names.
 * Of the containers' own: those that records name.
 */
export async function findProcesses({
  paths,
  containers,
  processes,
}: Pick<RuntimeContext, 'paths' | 'containers' | 'processes'>): Promise<Found[]> {
  const pidsOf = new Map<string, number[]>();
  const tasks = containers.list().flatMap(({ status }) => taskOf(status) ?? []);
  const recorded = new Map(tasks.map(({ bundleDir, id }) => [bundleDir, id]));
  const isOurs = (bundle: string): boolean =>
    recorded.has(bundle) || isBelow(bundle, paths.containers) || isBelow(bundle, paths.sandboxes);
  const found: Found[] = [];
  for (const pid of await listPids()) {
    const argv = (await readCmdline(pid)) ?? [];
    const bundle = bundleOf(argv);
    if (bundle !== undefined && isOurs(bundle)) {
      pidsOf.set(bundle, [...(pidsOf.get(bundle) ?? []), pid]);
    } else if (basename(argv[0] ?? '') === 'conmon' && (bundle === undefined || !isBelow(bundle, paths.state))) {
      const foreign = `a monitor of podman, CRI-O or another Gantry${bundle === undefined ? '' : `, for ${bundle}`}`;
      found.push({ kind: 'monitor', key: `pid ${String(pid)}`, foreign });
    }
  }
  for (const [bundle, pids] of pidsOf) {
    // A zombie's command line is empty, so what is here lives. An infra process' bundle lies in its sandbox's folder.
    const id = recorded.get(bundle) ?? basename(isBelow(bundle, paths.containers) ? bundle : dirname(bundle));
    found.push({ kind: 'monitor', key: bundle, ids: [id], note: await processes.describe(pids) });
  }
  for (const { meta, status } of containers.list()) {
    const task = taskOf(status);
    if (task !== undefined && (await processes.alive(task.pid, task.startTimeTicks))) {
      found.push({ kind: 'task', key: meta.id, ids: [meta.id] });
    }
  }
  return found;
}

function bundleOf(argv: readonly string[]): string | undefined {
  const at = argv.findIndex((argument) => argument === '--bundle' || argument === '-b');
  return at < 0 ? undefined : argv[at + 1];
}
