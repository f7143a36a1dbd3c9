import { basename, dirname, join } from 'node:path';
import type { Op } from '../../lib/abort.ts';
import { podOfCgroup, taskOfCgroup } from '../cgroup-layout.ts';
import type { RuntimeContext } from '../context.ts';
import { inCgroupLane } from '../release-table.ts';
import { isOurNetns } from '../sandbox/plan-sandbox.ts';
import { deferredNetworkSubject, parseOwner } from '../store/owners.ts';
import { containerOfSnapshot, isVolumeName } from '../store/paths.ts';
import type { SandboxRecord } from '../store/sandbox-record.ts';
import { laneOfOrphan, type Orphan } from './orphan.ts';

const ID = /^[0-9a-f]{64}$/;
/** Budget of one attempt. What is slower is tried again, and keeps neither other orphans nor the agent waiting. */
const ORPHAN_TIMEOUT_MS = 10_000;
/** Processes and mounts go before the folders that they are in. */
const ORDER: readonly Orphan['kind'][] = [
  'ledger',
  'cgroup',
  'netns',
  'container-folder',
  'sandbox-folder',
  'snapshot',
  'exit-file',
];

/**
 * Finds what is left of objects that nobody remembers: owners in the ledger, folders, snapshots, exit files and pinned networks.
 * Only what lies in this instance's own places or carries its name: others' things look the same and stay.
 * To be called before the first new object can be made.
 */
export async function findOrphans(rt: RuntimeContext, snapshotIds: () => Promise<string[]>): Promise<Orphan[]> {
  const known = (id: string): boolean => rt.sandboxes.get(id) !== undefined || rt.containers.get(id) !== undefined;
  const strangers = (ids: readonly string[]): string[] => ids.filter((id) => ID.test(id) && !known(id));
  const owners = rt.ledger.owners().filter((owner) => {
    const parsed = parseOwner(owner);
    return parsed !== undefined && (parsed.kind === 'network' || !known(parsed.id));
  });
  const [sandboxes, containers, written, kept, networks, snapshots] = await Promise.all([
    rt.folders.names(rt.paths.sandboxes),
    rt.folders.names(rt.paths.containers),
    rt.folders.names(rt.paths.exits.written),
    rt.folders.names(rt.paths.exits.kept),
    rt.folders.names(rt.settings.netnsDir),
    snapshotIds(),
  ]);
  // By name, which has the sandbox's id in it: the folder may have been spelled in another way before.
  const owned = new Set(rt.sandboxes.list().map(({ meta }) => basename(meta.facts.netnsPath ?? '')));
  return [
    ...owners.map((owner): Orphan => ({ kind: 'ledger', owner })),
    ...strangers(sandboxes).map((id): Orphan => ({ kind: 'sandbox-folder', id })),
    ...strangers(containers).map((id): Orphan => ({ kind: 'container-folder', id })),
    ...snapshots
      .filter((id) => strangers([containerOfSnapshot(id) ?? '']).length > 0)
      .map((id): Orphan => ({ kind: 'snapshot', id })),
    ...strangers([...new Set([...written, ...kept])]).map((id): Orphan => ({ kind: 'exit-file', id })),
    ...networks
      .map((name) => join(rt.settings.netnsDir, name))
      .filter((path) => isOurNetns(path, rt.settings.instance) && !owned.has(basename(path)))
      .map((path): Orphan => ({ kind: 'netns', path })),
  ];
}

/**
 * The same of cgroups, at any time: whoever makes one has a record before, and what is removed meanwhile had one. Apart, because hundreds of
 * folders are listed for fifty pods, on cgroup v1 in each hierarchy.
 */
export async function findOrphanCgroups(rt: RuntimeContext): Promise<Orphan[]> {
  const parent = rt.settings.cgroupParent;
  const before = rt.sandboxes.list();
  const knownBefore = new Set([...before, ...rt.containers.list()].map(({ meta }) => meta.id));
  const known = (id: string): boolean =>
    knownBefore.has(id) || rt.sandboxes.get(id) !== undefined || rt.containers.get(id) !== undefined;
  const orphans: Orphan[] = [];
  for (const pod of await rt.cgroups.children(parent)) {
    const path = join(parent, pod);
    // By the id of its sandbox, or by that of the pod, which only whoever asked for the sandbox knows.
    if (podOfCgroup(rt.settings, pod) !== undefined && !isPodOf([...before, ...rt.sandboxes.list()], path)) {
      orphans.push({ kind: 'cgroup', path });
      continue;
    }
    const children = await rt.cgroups.children(path);
    for (const child of children) {
      const id = taskOfCgroup(child);
      if (id !== undefined && !known(id)) orphans.push({ kind: 'cgroup', path: join(path, child) });
    }
  }
  return orphans;
}

function isPodOf(sandboxes: readonly SandboxRecord[], path: string): boolean {
  return sandboxes.some(({ meta }) => `${meta.facts.cgroupPath}/`.startsWith(`${path}/`));
}

/** Releases one orphan. Idempotent; throws while it is there. */
export async function releaseOrphan(op: Op, rt: RuntimeContext, orphan: Orphan): Promise<void> {
  switch (orphan.kind) {
    case 'ledger': {
      const parsed = parseOwner(orphan.owner);
      const subject = deferredNetworkSubject(rt.ledger, orphan.owner);
      const wasDeferred = parsed?.kind === 'network' && rt.ledger.entriesOf(orphan.owner).length > 0;
      const failures = await rt.ledger.release(op, orphan.owner, rt.releasers);
      if (failures[0] !== undefined) throw failures[0].error;
      if (wasDeferred) {
        const message = 'pod network disconnected after all';
        rt.journal.record({ subject, what: 'sandbox.network-released', message, outcome: 'ok' });
      }
      const id = parsed?.id;
      // Its monitor has written how it ended just now, which nobody will ask for.
      if (id !== undefined) await rt.tasks.forgetExit(id);
      return;
    }
    case 'sandbox-folder': {
      const paths = rt.paths.sandbox(orphan.id);
      await rt.mounts.unmount(op, paths.shm);
      for (const pin of [paths.ipc, paths.uts]) await rt.namespaces.unpin(op, pin);
      await rt.trees.remove(op, rt.paths.sandboxes, paths.dir);
      return;
    }
    case 'container-folder': {
      const { bundle, rootfs } = rt.paths.container(orphan.id);
      const volumes = (await rt.folders.names(bundle)).filter(isVolumeName);
      for (const path of [rootfs, ...volumes.map((name) => join(bundle, name))]) await rt.snapshots.unmount(op, path);
      await rt.trees.remove(op, rt.paths.containers, bundle);
      return;
    }
    case 'snapshot':
      await rt.snapshots.remove(op, orphan.id);
      return;
    case 'exit-file':
      await rt.tasks.forgetExit(orphan.id);
      return;
    case 'netns':
      await rt.namespaces.unpin(op, orphan.path);
      return;
    case 'cgroup':
      await inCgroupLane(rt.lanes, orphan.path, async (laneOp) => {
        // Its pod may have been given a new sandbox since the look.
        if (isPodOf(rt.sandboxes.list(), orphan.path)) return;
        for (const [id, path] of await tasksIn(rt, orphan.path)) await deleteLostTask(laneOp, rt, id, path);
        await rt.cgroups.killAll(laneOp, orphan.path);
        await rt.cgroups.remove(laneOp, orphan.path);
      });
  }
}

/** A container's group is named by its id; a pod's has those of its containers in it. */
async function tasksIn(rt: RuntimeContext, path: string): Promise<[id: string, path: string][]> {
  const children = await rt.cgroups.children(path);
  return [path, ...children.map((child) => join(path, child))].flatMap((each): [string, string][] => {
    const id = taskOfCgroup(basename(each));
    return id === undefined ? [] : [[id, each]];
  });
}

/**
 * Not even the ledger knows of it, but where it was made is where we make them: so its monitor is found, which would write how it ended
 * just when nobody looks any more, and what the OCI runtime keeps of it.
 */
async function deleteLostTask(op: Op, rt: RuntimeContext, id: string, cgroupPath: string): Promise<void> {
  const traces = rt.specs.taskTraces({ id, facts: { cgroupPath, sandboxId: '' } });
  // A sandbox's own process has its group in that of the pod, by the same id.
  const isInfra = podOfCgroup(rt.settings, basename(dirname(cgroupPath))) === id;
  await rt.tasks.delete(op, isInfra ? { ...traces, bundleDir: rt.paths.sandbox(id).infraBundle } : traces, {
    force: true,
  });
  await rt.tasks.forgetExit(id);
}

/** One attempt at each; returns after {@link ORPHAN_TIMEOUT_MS} for each of one object's at the most. What fails goes into back-off. */
export async function releaseOrphans(rt: RuntimeContext, orphans: readonly Orphan[]): Promise<void> {
  const byLane = Map.groupBy(orphans, laneOfOrphan);
  await Promise.all([...byLane].map(([lane, items]) => releaseInOrder(rt, lane, items)));
}

async function releaseInOrder(rt: RuntimeContext, lane: string, orphans: readonly Orphan[]): Promise<void> {
  const sorted = orphans.toSorted((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind));
  for (const [i, orphan] of sorted.entries()) {
    try {
      await rt.lanes.enqueue(lane, {
        name: `release a leftover (${orphan.kind})`,
        timeoutMs: ORPHAN_TIMEOUT_MS,
        run: (op) => releaseOrphan(op, rt, orphan),
      });
      await rt.faults.reach('recovery/orphan-released');
      rt.log.info({ orphan }, 'a leftover without an owner was released');
    } catch (error) {
      // Those behind it too: a folder does not go while what is mounted in it is there.
      for (const left of sorted.slice(i)) rt.retries.fail(lane, { kind: 'orphan', orphan: left }, error);
      return;
    }
  }
}
