import { join } from 'node:path';
import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { failedPrecondition } from '../lib/errors.ts';
import { findProgram } from '../lib/find-program.ts';
import { Cgroups, detectCgroups } from '../linux/cgroups.ts';
import type { HostFacts } from './oci/container-spec-input.ts';
import { gatherHostFacts } from './oci/host-facts.ts';
import { probeOciRuntime, type ProbedRuntime } from './oci/probe.ts';
import { SeccompProfiles } from './oci/seccomp.ts';
import type { RuntimeSettings } from './settings.ts';
import { RuntimePaths } from './store/paths.ts';

/** What this host has for us. */
export interface Host {
  readonly cgroups: Cgroups;
  /** The monitors' own leaf: they must not be in the login session's scope, nor in the daemon's. */
  readonly monitorCgroup: string;
  readonly probed: ProbedRuntime;
  readonly conmon: string;
  readonly cp: string;
  readonly catatonit?: string;
  readonly seccomp: SeccompProfiles;
  readonly facts: HostFacts;
}

/** Below the cgroup parent, beside the pods'. */
export const MONITOR_CGROUP = 'monitors';

/**
 * Finds the host's parts and tries the OCI runtime by running a container. Throws FailedPrecondition, in one line that says what to
 * do, when one of them is missing.
 */
export async function openHost(op: Op, settings: RuntimeSettings, clock: Clock): Promise<Host> {
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
  const probed = await probeOciRuntime(op, settings.ociRuntime, {
    clock,
    cgroupHost,
    cgroupParent: settings.cgroupParent,
    paths: new RuntimePaths(settings.root, settings.state),
    removeCgroup: (removeOp, path) => cgroups.remove(removeOp, path),
  });
  return {
    cgroups,
    monitorCgroup,
    probed,
    conmon,
    cp,
    ...(catatonit === undefined ? {} : { catatonit }),
    seccomp: await SeccompProfiles.load(),
    facts: await gatherHostFacts(cgroupHost),
  };
}
