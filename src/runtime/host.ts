import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { failedPrecondition, unavailable } from '../lib/errors.ts';
import { findProgram } from '../lib/find-program.ts';
import { PACKAGE_VERSION } from '../lib/package-version.ts';
import { Cgroups, detectCgroups } from '../linux/cgroups.ts';
import { canIdMapLayers } from '../linux/mapped-overlay.ts';
import { bootId } from '../linux/procfs.ts';
import { SystemdUnits } from '../linux/systemd-units.ts';
import { UnitCgroups, type UnitCgroupsDeps } from '../linux/unit-cgroups.ts';
import { ownCgroups, probeCgroup } from './cgroup-layout.ts';
import { AppArmor } from './oci/apparmor.ts';
import type { HostFacts } from './oci/container-spec-input.ts';
import { gatherHostFacts } from './oci/host-facts.ts';
import { parseHandlers } from './oci/handler-settings.ts';
import { ProbeMemory, type ProbeOutcome } from './oci/probe-memory.ts';
import { probeCandidate, type ProbeDeps } from './oci/probe.ts';
import { RuntimeHandlers } from './oci/runtime-handlers.ts';
import { SeccompProfiles } from './oci/seccomp.ts';
import type { RuntimeSettings } from './settings.ts';
import { RuntimePaths } from './store/paths.ts';

/** What this host has for us. */
export interface Host {
  readonly cgroups: Cgroups;
  /** systemd's, where it runs this machine. */
  readonly units: SystemdUnits;
  /** The monitors' own leaf: they must not be in the login session's scope, nor in the daemon's. */
  readonly monitorCgroup: string;
  readonly handlers: RuntimeHandlers;
  readonly conmon: string;
  readonly cp: string;
  readonly catatonit?: string;
  readonly seccomp: SeccompProfiles;
  readonly appArmor: AppArmor;
  /** AppArmor is on, and there is no program that could load a profile. */
  readonly lacksAppArmorParser: boolean;
  readonly facts: HostFacts;
}

/**
 * Finds the host's parts and tries the OCI runtime by running a container. Throws FailedPrecondition, in one line that says what to
 * do, when one of them is missing; but a Gantry that has had pods (`hadRecords`) starts without an OCI runtime that works: what there is can be
 * looked at and ended, and it tries again by itself.
 */
export async function openHost(op: Op, settings: RuntimeSettings, clock: Clock, hadRecords: boolean): Promise<Host> {
  const cgroupHost = await detectCgroups();
  if (cgroupHost.unusable !== undefined) throw failedPrecondition(cgroupHost.unusable);
  const { apparmorParser, ...programs } = await findPrograms();
  const cgroups = new Cgroups({ clock, host: cgroupHost });
  const units = new SystemdUnits();
  const monitorCgroup = await makeMonitorCgroup(cgroups, settings);
  const handlers = await makeHandlers(op, settings, { clock, cgroups, units, background: op });
  await handlers.open(op);
  if (handlers.unready !== undefined && !hadRecords) {
    throw failedPrecondition(handlers.unready, { details: { refused: handlers.refused } });
  }
  void handlers.verify(op, clock);
  const facts = await gatherHostFacts(cgroupHost);
  return {
    cgroups,
    units,
    monitorCgroup,
    handlers,
    ...programs,
    seccomp: await SeccompProfiles.load(),
    appArmor: new AppArmor({ enabled: facts.appArmor, parser: apparmorParser }),
    lacksAppArmorParser: facts.appArmor && apparmorParser === undefined,
    facts,
  };
}

/** Throws FailedPrecondition for one that we cannot do without. */
async function findPrograms(): Promise<Pick<Host, 'conmon' | 'cp' | 'catatonit'> & { apparmorParser?: string }> {
  return {
    conmon: await need('conmon', 'conmon'),
    cp: await need('cp', 'coreutils'),
    catatonit: await findProgram('catatonit'),
    apparmorParser: await findProgram('apparmor_parser'),
  };
}

async function need(program: string, debianPackage: string): Promise<string> {
  const path = await findProgram(program);
  if (path !== undefined) return path;
  throw failedPrecondition(`${program} is not installed: install the package ${debianPackage}`);
}

/** None of them is tried yet. */
async function makeHandlers(op: Op, settings: RuntimeSettings, deps: UnitCgroupsDeps): Promise<RuntimeHandlers> {
  const { clock, cgroups } = deps;
  const unitCgroups = new UnitCgroups(deps);
  const usesSystemd = settings.cgroupDriver === 'systemd';
  const paths = new RuntimePaths(settings.root, settings.state);
  const memory = await ProbeMemory.open(
    paths.probeMemory,
    [await bootId(), PACKAGE_VERSION, ...(usesSystemd ? ['systemd'] : [])].join(' '),
  );
  const probeDeps: ProbeDeps = {
    clock,
    cgroupHost: cgroups.host,
    cgroupOf: (id) => probeCgroup(settings, id),
    ...(usesSystemd ? { systemdCgroup: true } : {}),
    paths,
    removeCgroup: (removeOp, path) => unitCgroups.remove(removeOp, path),
  };
  /** Asked only for an OCI runtime that can. */
  let mapsLayers: Promise<boolean> | undefined;
  const ifLayersCanBeMapped = async (outcome: ProbeOutcome): Promise<ProbeOutcome> => {
    if ('reason' in outcome || !outcome.features.userNamespaces) return outcome;
    mapsLayers ??= canIdMapLayers(op, clock, { folder: paths.exits.kept, other: paths.sandboxes });
    return { ...outcome, features: { ...outcome.features, userNamespaces: await mapsLayers } };
  };
  return new RuntimeHandlers({
    choice: settings.ociRuntime,
    configured: parseHandlers(settings.runtimes ?? []),
    recall: (candidate) => memory.recall(candidate),
    probe: async (probeOp, candidate) => {
      const outcome = await ifLayersCanBeMapped(await probeCandidate(probeOp, candidate, probeDeps));
      await memory.note(candidate, outcome);
      return outcome;
    },
  });
}

/** In systemd's scope of the daemon, which is there: a directory in it is nothing that systemd need hear of. */
async function makeMonitorCgroup(cgroups: Cgroups, settings: RuntimeSettings): Promise<string> {
  const { scope, monitors } = ownCgroups(settings);
  if (scope === undefined) {
    await cgroups.ensureParent(settings.cgroupParent);
    await cgroups.create(monitors);
  } else if (!(await cgroups.createBelow(monitors))) {
    throw unavailable(`${scope}: the daemon's own scope is gone`);
  }
  return monitors;
}
