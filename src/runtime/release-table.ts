import { dirname } from 'node:path';
import type { Op } from '../lib/abort.ts';
import type { Lanes } from '../lib/lane.ts';
import type { Ledger, LedgerEntry, Releaser } from '../lib/ledger.ts';
import { isCgroupPath } from '../linux/cgroups.ts';
import { isOwnCgroup, type CgroupSettings } from './cgroup-layout.ts';
import { isExitUnknown } from './container/state.ts';
import type {
  CgroupTree,
  ContainerSnapshots,
  MountPoints,
  NamespacePins,
  NetworkPlan,
  SandboxNetworks,
  TreeRemover,
} from './parts.ts';
import type { ContainerStore } from './store/container-record.ts';
import { sandboxOwner } from './store/owners.ts';
import type { SandboxStore } from './store/sandbox-record.ts';
import type { TaskRemains, Tasks } from './task/task-service.ts';

export interface ReleaseDeps {
  readonly ledger: Ledger;
  readonly sandboxes: SandboxStore;
  readonly containers: Pick<ContainerStore, 'get'>;
  readonly tasks: Pick<Tasks, 'delete'>;
  readonly snapshots: ContainerSnapshots;
  readonly networks: SandboxNetworks;
  readonly namespaces: NamespacePins;
  readonly mounts: MountPoints;
  readonly cgroups: CgroupTree;
  readonly trees: TreeRemover;
  readonly lanes: Lanes;
  readonly settings: CgroupSettings;
}

const CGROUP_TIMEOUT_MS = 60_000;

/**
 * Making and taking away a pod's cgroup, one after the other: two sandboxes of one pod have the same one, and while the earlier one is
 * rolled back the next may be made already.
 */
export function inCgroupLane(lanes: Lanes, path: string, run: (op: Op) => Promise<void>): Promise<void> {
  return lanes.enqueue(`cgroup ${path}`, { name: 'the cgroup of a pod', timeoutMs: CGROUP_TIMEOUT_MS, run });
}

type Kind = 'task' | 'rootfs' | 'bundle' | 'snapshot' | 'cni' | 'pin' | 'tmpfs' | 'directory' | 'cgroup';

/**
 * How each kind of thing in the ledger is let go of. Each succeeds when the thing is not there (any more) and throws while
 * it is; each works from its entry alone, so that it does after a crash, a reboot or a change of configuration.
 */
export function releaseTable(deps: ReleaseDeps): Record<Kind, Releaser> {
  return {
    cgroup: (_op, entry) => inCgroupLane(deps.lanes, entry.key, (op) => releaseCgroup(op, deps, entry)),
    directory: (op, entry) => deps.trees.remove(op, rootOf(entry), entry.key),
    bundle: (op, entry) => deps.trees.remove(op, rootOf(entry), entry.key),
    tmpfs: (op, entry) => deps.mounts.unmount(op, entry.key),
    rootfs: (op, entry) => deps.snapshots.unmount(op, entry.key),
    snapshot: (op, entry) => deps.snapshots.remove(op, entry.key),
    pin: (op, entry) => deps.namespaces.unpin(op, entry.key),
    task: (op, entry) => {
      const exitUnknown = isExitUnknown(deps.containers.get(entry.key)?.status);
      return deps.tasks.delete(op, entry.data as unknown as TaskRemains, { force: true, exitUnknown });
    },
    cni: (op, entry) => releaseNetwork(op, deps, entry),
  };
}

function rootOf(entry: LedgerEntry): string {
  const root = entry.data['root'];
  return typeof root === 'string' ? root : dirname(entry.key);
}

async function releaseCgroup(op: Op, deps: ReleaseDeps, entry: LedgerEntry): Promise<void> {
  const { cgroups, sandboxes, ledger, settings } = deps;
  // Sandboxes were made with such parents once: there is no such cgroup, or it is not the pod's.
  if (!isCgroupPath(entry.key) || isOwnCgroup(settings, entry.key)) return;
  // A pod that was given a new sandbox has two for a while: whoever leaves last takes the group away.
  const heir = sandboxes.list().find(({ meta, status }) => {
    return (
      meta.facts.cgroupPath === entry.key && sandboxOwner(meta.id) !== entry.owner && status.removing === undefined
    );
  });
  if (heir !== undefined) {
    await ledger.intend(sandboxOwner(heir.meta.id), { kind: entry.kind, key: entry.key, volatile: true });
    return;
  }
  await cgroups.killAll(op, entry.key);
  await cgroups.remove(op, entry.key);
}

async function releaseNetwork(op: Op, { networks, namespaces }: ReleaseDeps, entry: LedgerEntry): Promise<void> {
  const plan = entry.data['plan'] as NetworkPlan;
  const path = entry.data['netnsPath'];
  const there = typeof path === 'string' && (await namespaces.inodeOf(path)) !== undefined;
  await networks.disconnect(op, plan, there ? path : undefined);
}
