import { join } from 'node:path';
import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { failedPrecondition } from '../lib/errors.ts';
import { findProgram } from '../lib/find-program.ts';
import { PACKAGE_VERSION } from '../lib/package-version.ts';
import { Cgroups, detectCgroups } from '../linux/cgroups.ts';
import { canIdMapLayers } from '../linux/id-mapped-layers.ts';
import { bootId } from '../linux/procfs.ts';
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

/** Below the cgroup parent, beside the pods'. */
export const MONITOR_CGROUP = 'monitors';

/**
 * Finds the host's parts and tries the OCI runtime by running a container. Throws FailedPrecondition, in one line that says what to
 * do, when one of them is missing; but a Gantry that has had pods (`hadRecords`) starts without an OCI runtime that works: what there is can be
 * looked at and ended, and it tries again by itself.
 */
export async function openHost(op: Op, settings: RuntimeSettings, clock: Clock, hadRecords: boolean): Promise<Host> {
  const cgroupHost = await detectCgroups();
  if (cgroupHost.unusable !== undefined) throw failedPrecondition(cgroupHost.unusable);
  const conmon = await findProgram('conmon');
  if (conmon === undefined) throw failedPrecondition('conmon is not installed: install the package conmon');
  const cp = await findProgram('cp');
  if (cp === undefined) throw failedPrecondition('cp is not installed: install the package coreutils');
  const catatonit = await findProgram('catatonit');
  const cgroups = new Cgroups({ clock, host: cgroupHost });
  const monitorCgroup = join(settings.cgroupParent, MONITOR_CGROUP);
  await cgroups.ensureParent(settings.cgroupParent);
  await cgroups.create(monitorCgroup);
  const paths = new RuntimePaths(settings.root, settings.state);
  /** Asked only for an OCI runtime that can. */
  let mapsLayers: Promise<boolean> | undefined;
  const ifLayersCanBeMapped = async (outcome: ProbeOutcome): Promise<ProbeOutcome> => {
    if ('reason' in outcome || !outcome.features.userNamespaces) return outcome;
    mapsLayers ??= canIdMapLayers(op, clock, { folder: paths.exits.kept, other: paths.sandboxes });
    return { ...outcome, features: { ...outcome.features, userNamespaces: await mapsLayers } };
  };
  const memory = await ProbeMemory.open(paths.probeMemory, `${await bootId()} ${PACKAGE_VERSION}`);
  const probeDeps: ProbeDeps = {
    clock,
    cgroupHost,
    cgroupParent: settings.cgroupParent,
    paths,
    removeCgroup: (removeOp, path) => cgroups.remove(removeOp, path),
  };
  const handlers = new RuntimeHandlers({
    choice: settings.ociRuntime,
    configured: parseHandlers(settings.runtimes ?? []),
    recall: (candidate) => memory.recall(candidate),
    probe: async (probeOp, candidate) => {
      const outcome = await ifLayersCanBeMapped(await probeCandidate(probeOp, candidate, probeDeps));
      await memory.note(candidate, outcome);
      return outcome;
    },
  });
  await handlers.open(op);
  if (handlers.unready !== undefined && !hadRecords) {
    throw failedPrecondition(handlers.unready, { details: { refused: handlers.refused } });
  }
  const facts = await gatherHostFacts(cgroupHost);
  const parser = await findProgram('apparmor_parser');
  void handlers.verify(op, clock);
  return {
    cgroups,
    monitorCgroup,
    handlers,
    conmon,
    cp,
    ...(catatonit === undefined ? {} : { catatonit }),
    seccomp: await SeccompProfiles.load(),
    appArmor: new AppArmor({ enabled: facts.appArmor, ...(parser === undefined ? {} : { parser }) }),
    lacksAppArmorParser: facts.appArmor && parser === undefined,
    facts,
  };
}
