import { unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { raceSignal, type Op } from '../../lib/abort.ts';
import { errnoOf, unavailable } from '../../lib/errors.ts';
import { rmdirIfThere, unlinkIfThere } from '../../lib/may-be-gone.ts';
import { bridgePorts, deleteBridge } from '../../linux/network-interfaces.ts';
import type { RuntimeContext } from '../context.ts';
import type { Iptables } from '../network/iptables.ts';
import { giveBack } from '../network/reservations.ts';
import { laneOfOrphan, type Orphan } from '../recovery/orphan.ts';
import { releaseOrphan } from '../recovery/orphans.ts';
import { markNotReady } from '../recovery/recover-sandbox.ts';
import type { Found, Kind, Owned, Remedy } from './inventory.ts';
import type { StorageParts } from './probes/storage.ts';
import type { UnitLister } from './probes/units.ts';

/** A person waits for this one, and it is not tried again by itself. */
const ORPHAN_TIMEOUT_MS = 100_000;

export interface CarryOutDeps {
  readonly rt: RuntimeContext;
  readonly iptables: Iptables;
  readonly storage: StorageParts;
  readonly units: UnitLister;
  /** The one that new containers are made with. */
  repairNetwork(op: Op): Promise<void>;
}

/** Does what a finding's action says, by the same means as the runtime itself. Idempotent; throws while it is not done. */
export async function carryOut(op: Op, deps: CarryOutDeps, remedy: Remedy): Promise<void> {
  const { rt } = deps;
  switch (remedy.do) {
    case 'release':
      await releaseLost(op, rt, remedy.owner);
      return;
    case 'strike':
      await strike(op, rt, remedy.owned);
      return;
    case 'not-ready':
      markNotReady(rt, remedy.sandboxId, remedy.why);
      return;
    case 'look-for-exits':
      rt.exits.look();
      return;
    case 'repair-network':
      await deps.repairNetwork(op);
      return;
    case 'remove':
      await remove(op, deps, remedy.found);
  }
}

/** What does not go now is pending from here on, and is no longer promised to go for the asking. */
async function releaseLost(op: Op, rt: RuntimeContext, owner: string): Promise<void> {
  const orphan: Orphan = { kind: 'ledger', owner };
  try {
    await releaseOrphan(op, rt, orphan);
  } catch (error) {
    rt.retries.fail(laneOfOrphan(orphan), { kind: 'orphan', orphan }, error);
    throw error;
  }
  // In a lane of its own: nothing else waits behind it.
  if (laneOfOrphan(orphan) === owner) rt.retries.forget(owner);
}

/** Its releaser first: that a thing cannot be seen does not prove that all of it is gone. */
async function strike(op: Op, rt: RuntimeContext, { owner, kind, key }: Owned): Promise<void> {
  for (const entry of rt.ledger.entriesOf(owner)) {
    if (entry.key !== key || (entry.kind !== kind && !(entry.kind === 'pin' && kind === 'netns'))) continue;
    await rt.releasers[entry.kind]?.(op, entry);
    await rt.ledger.forget(entry);
  }
}

async function remove(op: Op, deps: CarryOutDeps, found: Found): Promise<void> {
  const { rt } = deps;
  // It may have been given to somebody since it was found.
  if (found.ids?.some((id) => rt.sandboxes.get(id) !== undefined || rt.containers.get(id) !== undefined) === true)
    return;
  const orphan = orphanOf(found);
  if (orphan !== undefined) {
    // Recovery may be at it, too.
    const step = { name: 'put right', timeoutMs: ORPHAN_TIMEOUT_MS, run: (own: Op) => releaseOrphan(own, rt, orphan) };
    await raceSignal(rt.lanes.enqueue(laneOfOrphan(orphan), step), op.signal);
    return;
  }
  switch (found.kind) {
    case 'monitor':
    case 'oci-state':
      await endTask(op, deps, found);
      return;
    case 'systemd-unit':
      await deps.units.stop(op, found.key);
      return;
    case 'pin':
      await rt.namespaces.unpin(op, found.key);
      return;
    case 'tmpfs':
      await rt.mounts.unmount(op, found.key);
      return;
    case 'rootfs':
      await rt.snapshots.unmount(op, found.key);
      return;
    case 'cni':
      for (const id of found.ids ?? []) await giveBack({ path: found.key, id });
      return;
    case 'iptables-rule':
      if (found.rule !== undefined) await deps.iptables.remove(op, found.rule);
      return;
    case 'cni-bridge': {
      const ports = (await bridgePorts(found.key)) ?? [];
      if (ports.length > 0) throw unavailable(`bridge ${found.key} is in use by ${ports.join(', ')}`);
      await deleteBridge(found.key);
      return;
    }
    case 'staging':
      await deps.storage.removeStray(op, found.key);
      return;
    case 'layer':
      await deps.storage.removeUnusedLayers(op);
      return;
    case 'socket':
      await removeSocket(found.key);
      return;
    default:
      throw unavailable(`nothing here knows how to remove a ${found.kind}`);
  }
}

/** Kinds that are found at a start too, and released the same way. */
function orphanOf({ kind, key }: Found): Orphan | undefined {
  const orphanKind = ORPHANS.get(kind);
  switch (orphanKind) {
    case undefined:
      return undefined;
    case 'netns':
    case 'cgroup':
      return { kind: orphanKind, path: key };
    default:
      return { kind: orphanKind, id: basename(key) };
  }
}

const ORPHANS: ReadonlyMap<Kind, Exclude<Orphan['kind'], 'ledger'>> = new Map([
  ['netns', 'netns'],
  ['cgroup', 'cgroup'],
  ['bundle', 'container-folder'],
  ['directory', 'sandbox-folder'],
  ['snapshot', 'snapshot'],
  ['exit-file', 'exit-file'],
]);

/** All that may be left of a container that nobody remembers: monitor, OCI runtime at work, the runtime's state, processes. */
async function endTask(op: Op, { rt }: CarryOutDeps, found: Found): Promise<void> {
  const [id = basename(found.key)] = found.ids ?? [];
  const { paths } = rt;
  const name = paths.ociRuntimeOf(dirname(found.key)) ?? rt.handlers.default?.runtime.name ?? 'runc';
  const known = rt.handlers.working.find(({ runtime }) => runtime.name === name)?.runtime;
  const runtime = known ?? { name, path: name, root: paths.ociState(name) };
  const bundleDir = found.kind === 'monitor' ? found.key : paths.container(id).bundle;
  // Its cgroup is a finding of its own; here none is named, so none is touched.
  const cgroupPath = join(rt.settings.cgroupParent, `gone-${id}`);
  await rt.tasks.delete(op, { id, bundleDir, cgroupPath, runtime }, { force: true, cgroupUnknown: true });
}

/** A link of conmon's, or a folder in its place with nothing in it but the socket. */
async function removeSocket(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return;
    if (errnoOf(error) !== 'EISDIR' && errnoOf(error) !== 'EPERM') throw error;
    await unlinkIfThere(join(path, 'attach'));
    await rmdirIfThere(path);
  }
}
