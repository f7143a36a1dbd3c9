import { mkdir } from 'node:fs/promises';
import { hostname } from 'node:os';
import { PodSandboxConfig, type RunPodSandboxRequest, type RunPodSandboxResponse } from '../../cri/gen/api.ts';
import { recordStep } from '../../journal/record-step.ts';
import { raceSignal, type Op } from '../../lib/abort.ts';
import { invalidArgument } from '../../lib/errors.ts';
import { newSandboxId } from '../../lib/ids.ts';
import type { LedgerItem } from '../../lib/ledger.ts';
import { demandRoom } from '../../lib/store/disk-room.ts';
import { settleAll } from '../../lib/settle-all.ts';
import type { RuntimeContext } from '../context.ts';
import { MAKING_STEPS } from '../making-steps.ts';
import { stageOf } from '../names/stage-of.ts';
import { surelyTold } from '../names/surely-told.ts';
import { inCgroupLane } from '../release-table.ts';
import { sandboxOwner } from '../store/owners.ts';
import type { SandboxPaths } from '../store/paths.ts';
import { sandboxSubject, type SandboxMeta } from '../store/sandbox-record.ts';
import { planSandbox, sortSysctls } from './plan-sandbox.ts';
import { awaitEarlierRun } from './await-earlier-run.ts';
import { networkRequestOf } from './network-request.ts';
import { checkPodResources, podLimits, podResourcesOf } from './pod-limits.ts';
import { undoRun } from './undo-run.ts';
import { writeSandboxFiles } from './sandbox-files.ts';
import { checkSandboxConfig } from './check-config.ts';
import { isReady, newSandboxStatus, transition, type PinKind } from './state.ts';

/** CNI plug-ins take seconds where they talk to a network controller; kubelet's own limit is 4 min. */
const RUN_TIMEOUT_MS = 225_000;
/** As every CRI runtime gives a pod. */
const SHM_BYTES = 64 << 20;

/**
 * Makes a pod's sandbox and returns when it is READY. The work goes on if the caller leaves, within its own limit: a repeated
 * call with the same configuration joins it, or gets what it made. If it fails everything is undone.
 * Throws InvalidArgument, AlreadyExists (the name is another sandbox's), Unavailable (no pod network, no OCI runtime that works),
 * FailedPrecondition (the handler does not work here), ResourceExhausted (full disk).
 */
export async function runPodSandbox(
  op: Op,
  rt: RuntimeContext,
  { config, runtimeHandler }: RunPodSandboxRequest,
): Promise<RunPodSandboxResponse> {
  if (config === undefined) throw invalidArgument('RunPodSandbox: no configuration');
  checkSandboxConfig(config);
  rt.specs.checkSandbox(config);
  const id = newSandboxId();
  const facts = planSandbox(id, config, runtimeHandler, {
    ...rt.settings,
    hostname: hostname(),
    handler: rt.handlers.choose(runtimeHandler),
  });
  const meta: SandboxMeta = { id, config, facts };
  await checkPodResources(rt, config.linux ?? {}, 'linux.');
  const fingerprint = fingerprintOf(config);
  const made = rt.sandboxNames.reserve({
    name: facts.name,
    id,
    fingerprint,
    make: async () => {
      await demandRoom(rt.room, 'no new sandbox is made');
      const run = (laneOp: Op): Promise<string> => makeSandbox(laneOp, rt, meta);
      return await rt.lanes.enqueue(id, { name: MAKING_STEPS.sandbox, timeoutMs: RUN_TIMEOUT_MS, run });
    },
    keepsName: (given) => rt.sandboxes.get(given) !== undefined,
    reuse: (given) => reusable(rt, given, fingerprint),
    describe: (given) => stageOf(rt.clock, rt.sandboxes.get(given)),
  });
  const podSandboxId = await raceSignal(made, op.signal);
  if (surelyTold(op, rt.clock)) rt.answered.add(podSandboxId);
  return { podSandboxId };
}

function fingerprintOf(config: PodSandboxConfig): string {
  return Buffer.from(PodSandboxConfig.encode(config).finish()).toString('base64');
}

/** A READY sandbox whose maker never got its answer (it left, or we were restarted) and that nobody has used. */
function reusable(rt: RuntimeContext, id: string, fingerprint: string): string | undefined {
  const record = rt.sandboxes.get(id);
  if (record === undefined || rt.answered.has(id) || !isReady(record.status)) return undefined;
  if (record.status.stopping !== undefined || record.status.removing !== undefined) return undefined;
  if (rt.containers.list().some((container) => container.meta.facts.sandboxId === id)) return undefined;
  return fingerprintOf(record.meta.config) === fingerprint ? id : undefined;
}

async function makeSandbox(op: Op, rt: RuntimeContext, meta: SandboxMeta): Promise<string> {
  const { id, facts } = meta;
  const subject = sandboxSubject(meta);
  const paths = rt.paths.sandbox(id);
  const owner = sandboxOwner(id);
  const items = await resourcesOf(rt, meta);
  const words = { what: 'sandbox.run', message: 'sandbox made', step: 'making the sandbox' };
  try {
    await recordStep(rt, subject, words, async () => {
      await rt.faults.reach('run-sandbox/begun');
      await settleAll([
        rt.sandboxes
          .insert(meta, newSandboxStatus(rt.clock.wallMs(), rt.bootId))
          .then(() => rt.faults.reach('run-sandbox/recorded')),
        rt.ledger.intend(owner, ...items).then(() => rt.faults.reach('run-sandbox/intended')),
      ]);
      await mkdir(paths.dir, { recursive: true, mode: 0o711 });
      await rt.faults.reach('run-sandbox/folder-made');
      await settleAll([
        makeCgroup(op, rt, meta, items),
        makeFiles(op, rt, meta, paths),
        pinNamespaces(op, rt, meta, paths),
      ]);
      if (facts.netnsPath !== undefined) {
        const wording = {
          what: 'sandbox.network',
          message: 'pod network connected',
          step: 'connecting the pod network',
        };
        await recordStep(rt, subject, wording, () => connect(op, rt, meta, facts.netnsPath ?? ''));
      }
      if (facts.namespaces.pid === 'pod') await startInfra(op, rt, meta, paths);
      op.signal.throwIfAborted();
      await settleAll<unknown>([
        rt.sandboxes.update(id, (status) => transition(status, { kind: 'ready' })),
        ...items.filter((item) => item.kind === 'directory').map((item) => rt.ledger.hold(owner, item.kind, item.key)),
      ]);
      await rt.faults.reach('run-sandbox/ready');
    });
    return id;
  } catch (error) {
    await undoRun(rt, id, error);
    throw error;
  }
}

/** Everything that will be held, in the order in which it is acquired: undoing goes backwards. */
async function resourcesOf(rt: RuntimeContext, meta: SandboxMeta): Promise<LedgerItem[]> {
  const { cgroupPath } = meta.facts;
  const items = sandboxItems(rt, meta);
  // A parent group elsewhere that is there already (kubelet's) is not ours to remove.
  if (isBelowOurs(rt, cgroupPath) || (await rt.cgroups.exists(cgroupPath))) return items;
  return [{ kind: 'cgroup', key: cgroupPath, volatile: true }, ...items];
}

function isBelowOurs(rt: Pick<RuntimeContext, 'settings'>, cgroupPath: string): boolean {
  return cgroupPath.startsWith(`${rt.settings.cgroupParent}/`);
}

/** What follows from the metadata alone; the pod network has an entry of its own. */
export function sandboxItems(
  rt: Pick<RuntimeContext, 'settings' | 'paths' | 'infra'>,
  meta: SandboxMeta,
): LedgerItem[] {
  const { facts, id } = meta;
  const paths = rt.paths.sandbox(id);
  const pins = Object.values(pinPathsOf(meta, paths));
  return [
    ...(isBelowOurs(rt, facts.cgroupPath) ? [{ kind: 'cgroup', key: facts.cgroupPath, volatile: true }] : []),
    { kind: 'directory', key: paths.dir, data: { root: rt.paths.sandboxes }, volatile: false },
    ...(facts.namespaces.ipc === 'pod' ? [{ kind: 'tmpfs', key: paths.shm, volatile: true }] : []),
    ...pins.map((key) => ({ kind: 'pin', key, volatile: true })),
    ...(facts.namespaces.pid === 'pod'
      ? [{ kind: 'task', key: id, data: rt.infra.taskTraces(meta, paths), volatile: true }]
      : []),
  ];
}

async function makeCgroup(op: Op, rt: RuntimeContext, meta: SandboxMeta, items: readonly LedgerItem[]): Promise<void> {
  for (const { key } of items.filter((item) => item.kind === 'cgroup')) {
    const limits = podLimits(podResourcesOf({ meta }));
    // An earlier sandbox of the same pod may be letting go of it.
    await inCgroupLane(rt.lanes, key, (laneOp) => rt.cgroups.create(laneOp, key, limits));
    op.signal.throwIfAborted();
    await rt.faults.reach('run-sandbox/cgroup-made');
  }
}

async function makeFiles(op: Op, rt: RuntimeContext, meta: SandboxMeta, paths: SandboxPaths): Promise<void> {
  const { hostname, idMappings } = meta.facts;
  await writeSandboxFiles(paths, {
    dns: meta.config.dnsConfig,
    hostname,
    ...(idMappings === undefined ? {} : { idMappings }),
  });
  await rt.faults.reach('run-sandbox/files-written');
  if (meta.facts.namespaces.ipc !== 'pod') return;
  await mkdir(paths.shm, { recursive: true, mode: 0o1777 });
  await rt.faults.reach('run-sandbox/shm-folder-made');
  await rt.mounts.tmpfs(op, paths.shm, { sizeBytes: SHM_BYTES, mode: 0o1777 });
  await rt.faults.reach('run-sandbox/shm-mounted');
}

function pinPathsOf({ facts }: SandboxMeta, paths: SandboxPaths): Partial<Record<PinKind, string>> {
  return {
    ...(facts.netnsPath === undefined ? {} : { net: facts.netnsPath }),
    ...(facts.namespaces.ipc === 'pod' ? { ipc: paths.ipc } : {}),
    ...(facts.namespaces.uts === 'pod' ? { uts: paths.uts } : {}),
    ...(facts.idMappings === undefined ? {} : { user: paths.user }),
  };
}

async function pinNamespaces(op: Op, rt: RuntimeContext, meta: SandboxMeta, paths: SandboxPaths): Promise<void> {
  const wanted = pinPathsOf(meta, paths);
  if (Object.keys(wanted).length === 0) return;
  const pins = await rt.namespaces.pin(op, {
    paths: wanted,
    ...(meta.facts.idMappings === undefined ? {} : { idMappings: meta.facts.idMappings }),
    ...(meta.facts.namespaces.uts === 'pod' ? { hostname: meta.facts.hostname } : {}),
    sysctls: sortSysctls(meta.config.linux?.sysctls ?? {}, meta.facts.namespaces).pinned,
  });
  await rt.faults.reach('run-sandbox/namespaces-pinned');
  await rt.sandboxes.update(meta.id, (status) => transition(status, { kind: 'pinned', pins }));
  await rt.faults.reach('run-sandbox/pins-recorded');
}

async function connect(op: Op, rt: RuntimeContext, meta: SandboxMeta, netnsPath: string): Promise<void> {
  const request = networkRequestOf(meta, netnsPath);
  await awaitEarlierRun(op, rt, meta);
  const plan = await rt.networks.plan(op, request);
  const owner = sandboxOwner(meta.id);
  // Durable: addresses outlive a reboot in the files of the address plug-in (FAILURES.md row 39).
  await rt.ledger.intend(owner, { kind: 'cni', key: meta.id, data: { plan, netnsPath }, volatile: false });
  await rt.faults.reach('run-sandbox/network-intended');
  const connected = await rt.networks.connect(op, request, plan);
  await rt.faults.reach('run-sandbox/network-connected');
  await settleAll<unknown>([
    rt.ledger
      .hold(owner, 'cni', meta.id, { plan: connected.plan, netnsPath })
      .then(() => rt.faults.reach('run-sandbox/network-held')),
    rt.sandboxes
      .update(meta.id, (status) => transition(status, { kind: 'connected', ips: connected.ips }))
      .then(() => rt.faults.reach('run-sandbox/network-recorded')),
  ]);
}

async function startInfra(op: Op, rt: RuntimeContext, meta: SandboxMeta, paths: SandboxPaths): Promise<void> {
  const task = await rt.tasks.create(op, await rt.infra.task(meta, paths));
  await rt.faults.reach('run-sandbox/infra-made');
  await rt.ledger.hold(sandboxOwner(meta.id), 'task', meta.id, { ...task });
  await rt.faults.reach('run-sandbox/infra-held');
  await rt.sandboxes.update(meta.id, (status) => transition(status, { kind: 'infra-started', task }));
  await rt.faults.reach('run-sandbox/infra-recorded');
  rt.exits.arm({ ...task, weSentKill: () => true });
  const starting = rt.tasks.start(op, task);
  rt.faults.pass('run-sandbox/infra-starting');
  await starting;
  await rt.faults.reach('run-sandbox/infra-started');
}
