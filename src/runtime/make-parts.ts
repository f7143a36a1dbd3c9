import type { Op } from '../lib/abort.ts';
import type { Ledger } from '../lib/ledger.ts';
import { HostFiles } from '../linux/host-files.ts';
import { PidfdWatcher } from '../linux/pidfd-watcher.ts';
import { UnitCgroups } from '../linux/unit-cgroups.ts';
import type { RuntimeParts } from './assemble-runtime.ts';
import { CdiDevices } from './cdi/cdi-devices.ts';
import { SpecBuilder } from './container/spec-builder.ts';
import { taskOf } from './container/state.ts';
import { subjectOfId } from './container/subject.ts';
import type { Groundwork } from './groundwork.ts';
import type { Host } from './host.ts';
import { imageLookup } from './image-parts.ts';
import type { KernelCalls } from './kernel-calls.ts';
import {
  cgroupTree,
  folders,
  mountPoints,
  namespacePins,
  podSockets,
  processLook,
  treeRemover,
} from './linux-parts.ts';
import { PodNetwork } from './network/pod-network.ts';
import { CAPABILITIES } from './oci/capabilities.ts';
import type { OciRuntimeLocation } from './oci/oci-runtime.ts';
import type { RuntimeHandlers } from './oci/runtime-handlers.ts';
import type { Storage } from './open-storage.ts';
import { InfraTaskBuilder } from './sandbox/infra-task.ts';
import type { RuntimePaths } from './store/paths.ts';
import { exitFolder } from './task/exit-folder.ts';
import { LogLooks } from './task/log-looks.ts';
import { linuxProcessTable } from './task/process-table.ts';
import { linuxTaskCgroups } from './task/task-cgroups.ts';
import { TaskService } from './task/task-service.ts';

export interface MadeParts {
  readonly parts: RuntimeParts;
  readonly networks: PodNetwork;
  /** After the runtime that was assembled from them is closed. */
  close(): void;
}

/** The real neighbours of the runtime, where a simulation has others. */
export function makeParts(ground: Groundwork, host: Host, kernel: KernelCalls, storage: Storage): MadeParts {
  const { ledger, sandboxes, containers, images, snapshots } = storage;
  const unitCgroups = new UnitCgroups({ ...ground, cgroups: host.cgroups, units: host.units });
  const { pidfds, tasks, exitSources } = makeTasks(ground, host, kernel, storage, unitCgroups);
  const networks = makeNetworks(ground, ledger);
  const parts: RuntimeParts = {
    ...ground,
    notices: noticesOf(host),
    handlers: host.handlers,
    sandboxes,
    containers,
    ledger,
    tasks,
    exitSources,
    specs: makeSpecs(ground, host, kernel, storage),
    infra: makeInfra(ground, host),
    images: imageLookup(images),
    snapshots,
    networks,
    networkReleasers: networks.releasers,
    namespaces: namespacePins(kernel.pins),
    podSockets: podSockets(kernel.namespaceSockets),
    mounts: mountPoints(kernel.mounts),
    cgroups: cgroupTree(host.cgroups, unitCgroups),
    folders,
    trees: treeRemover(kernel.remover),
    processes: processLook,
  };
  return { parts, networks, close: () => pidfds.close() };
}

function makeTasks(
  { paths, clock, log, faults, journal }: Groundwork,
  { cgroups, conmon, monitorCgroup, cp }: Host,
  { hangSafe, remover, packets }: KernelCalls,
  { sandboxes, containers }: Storage,
  unitCgroups: UnitCgroups,
): Pick<RuntimeParts, 'tasks' | 'exitSources'> & { readonly pidfds: PidfdWatcher } {
  const pidfds = new PidfdWatcher({ clock, log });
  const processes = linuxProcessTable(pidfds);
  const tasks = new TaskService({
    clock,
    faults,
    processes,
    cgroups: linuxTaskCgroups(cgroups, unitCgroups),
    conmon,
    monitorCgroup,
    cp,
    exits: paths.exits,
    paths,
    trees: treeRemover(remover),
    packets,
    onTornRecord: (id, message) => {
      const subject = subjectOfId({ sandboxes, containers }, id);
      journal.record({ subject, what: 'container.record-torn', message, outcome: 'ok' });
    },
  });
  const logLooks = new LogLooks(clock, new HostFiles(hangSafe));
  const exitSources = {
    processes,
    exits: exitFolder(paths.exits),
    oomKillCount: (path: string) => unitCgroups.oomKillCount(path),
    logLoss: (op: Op, path: string) => logLooks.lossIn(op, path),
  };
  return { pidfds, tasks, exitSources };
}

function makeNetworks({ settings, paths, clock, log, faults, journal }: Groundwork, ledger: Ledger): PodNetwork {
  return new PodNetwork({
    clock,
    log,
    faults,
    ledger,
    instance: settings.instance,
    confDir: settings.cniConfDir,
    binDirs: settings.cniBinDirs,
    ipamDir: paths.ipam,
    defaultNetwork: settings.defaultNetwork,
    onDoneWithout: (subject, why) => {
      const message = `CNI DEL is done without, as nothing is held any more: ${why}`;
      journal.record({ subject, what: 'sandbox.network-done-without', message, outcome: 'ok' });
    },
  });
}

function makeSpecs(
  { paths, settings }: Groundwork,
  { facts, handlers, seccomp, appArmor }: Host,
  { hangSafe }: KernelCalls,
  { sandboxes, containers }: Storage,
): SpecBuilder {
  return new SpecBuilder({
    paths,
    host: facts,
    runtimeOf: (sandboxId) => sandboxes.get(sandboxId)?.meta.facts.runtime ?? fallbackRuntime(paths, handlers),
    featuresOf: (runtime) => handlers.featuresOf(runtime),
    appArmor,
    cdi: new CdiDevices(settings.cdiSpecDirs),
    seccomp,
    hostFiles: new HostFiles(hangSafe),
    targetOf: (given) => {
      const record = containers.get(containers.resolve(given) ?? '');
      if (record === undefined) return undefined;
      const pid = record.status.state.kind === 'running' ? taskOf(record.status)?.pid : undefined;
      return { sandboxId: record.meta.facts.sandboxId, ...(pid === undefined ? {} : { pid }) };
    },
  });
}

function makeInfra({ paths, settings }: Groundwork, { facts, handlers, seccomp, catatonit }: Host): InfraTaskBuilder {
  const own = catatonit === undefined ? {} : { catatonit };
  return new InfraTaskBuilder({
    paths,
    settings,
    host: facts,
    fallback: () => fallbackRuntime(paths, handlers),
    seccomp,
    ...own,
  });
}

/** For sandboxes of a time before each had its own in its record. */
function fallbackRuntime(paths: RuntimePaths, { fallback }: RuntimeHandlers): OciRuntimeLocation {
  return { ...fallback, root: paths.ociState(fallback.name) };
}

function noticesOf({ handlers, seccomp, catatonit, lacksAppArmorParser, facts }: Host): string[] {
  const given = facts.boundingCapabilities;
  const withheld = CAPABILITIES.slice(0, facts.lastCapability + 1).filter((name) => !given.includes(name));
  return [
    ...handlers.refused.map(({ name, reason }) => `OCI runtime ${name} is not used: ${reason}`),
    ...(seccomp.defaultSource === undefined ? ['no seccomp profile on this host: a built-in one is used'] : []),
    ...(lacksAppArmorParser
      ? ['apparmor_parser is not installed: containers that name no AppArmor profile are not confined by one']
      : []),
    ...(withheld.length > 0
      ? [`gantryd itself may not have ${withheld.join(', ')}: no container gets these, privileged or not`]
      : []),
    ...(facts.mayLowerOomScoreAdj
      ? []
      : [`gantryd may not lower oom_score_adj: no container gets one below ${String(facts.oomScoreAdj)}`]),
    ...(catatonit === undefined ? ['catatonit is not installed: no pod can share its PID namespace'] : []),
  ];
}
