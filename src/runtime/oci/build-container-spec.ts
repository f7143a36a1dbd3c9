import { posix } from 'node:path';
import { decideCapabilities } from './capabilities.ts';
import { cgroupAnnotations, cgroupsPath, taskLimit } from './cgroups-path.ts';
import { commandLine, environment } from './command-line.ts';
import type { ContainerSpecInput, NamespaceChoice } from './container-spec-input.ts';
import { containerMounts, rootfsPropagation } from './mounts.ts';
import { clampOomScoreAdj, containerDevices, containerResources } from './resources.ts';
import { OCI_VERSION, type OciNamespace, type OciNamespaceType, type OciProcess, type OciSpec } from './spec.ts';

/** What no container should see of the host's kernel, as the field masks it. */
export const MASKED_PATHS: readonly string[] = [
  '/proc/asound',
  '/proc/acpi',
  '/proc/interrupts',
  '/proc/kcore',
  '/proc/keys',
  '/proc/latency_stats',
  '/proc/timer_list',
  '/proc/timer_stats',
  '/proc/sched_debug',
  '/proc/scsi',
  '/sys/firmware',
  '/sys/devices/virtual/powercap',
];

export const READONLY_PATHS: readonly string[] = [
  '/proc/bus',
  '/proc/fs',
  '/proc/irq',
  '/proc/sys',
  '/proc/sysrq-trigger',
];

/** The container's `config.json`. Pure. Throws InvalidArgument for what cannot be: no command, an unknown capability … */
export function buildContainerSpec(input: ContainerSpecInput): OciSpec {
  const privileged = input.privileged === true;
  const devices = containerDevices(input);
  const propagation = rootfsPropagation(input.mounts);
  const uts = input.namespaces.uts;
  return {
    ociVersion: OCI_VERSION,
    process: containerProcess(input),
    root: { path: input.rootfs, readonly: input.readOnlyRootfs === true },
    // A joined UTS namespace has its name already, and the host's own is not ours to set.
    ...(input.hostname !== undefined && uts.kind === 'new' ? { hostname: input.hostname } : {}),
    mounts: containerMounts(input),
    annotations: { ...input.annotations, ...cgroupAnnotations(input) },
    linux: {
      namespaces: containerNamespaces(input),
      cgroupsPath: cgroupsPath(input),
      resources: {
        ...taskLimit(input, input.resources?.unified),
        ...containerResources(input.host, input.resources, devices.rules),
      },
      ...(devices.nodes.length > 0 ? { devices: devices.nodes } : {}),
      ...(input.sysctls === undefined ? {} : { sysctl: input.sysctls }),
      ...(input.seccomp === undefined || privileged ? {} : { seccomp: input.seccomp }),
      maskedPaths: privileged ? [] : (input.maskedPaths ?? MASKED_PATHS),
      readonlyPaths: privileged ? [] : (input.readonlyPaths ?? READONLY_PATHS),
      ...(propagation === undefined ? {} : { rootfsPropagation: propagation }),
    },
  };
}

function containerProcess(input: ContainerSpecInput): OciProcess {
  const { capabilities } = decideCapabilities(
    {
      privileged: input.privileged,
      add: input.addCapabilities,
      drop: input.dropCapabilities,
      addAmbient: input.addAmbientCapabilities,
    },
    input.host.boundingCapabilities,
  );
  const oomScoreAdj = clampOomScoreAdj(input.host, input.resources?.oomScoreAdj);
  return {
    terminal: input.terminal === true,
    user: { uid: input.user.uid, gid: input.user.gid, additionalGids: input.user.additionalGids },
    args: commandLine(input.image, input.command, input.args),
    env: environment({
      image: input.image.env ?? [],
      container: input.env ?? [],
      hostname: input.hostname,
      home: input.user.home,
      terminal: input.terminal,
    }),
    cwd: posix.resolve('/', firstOf(input.workingDir, input.image.workingDir) ?? '/'),
    capabilities,
    noNewPrivileges: input.noNewPrivileges === true,
    ...(oomScoreAdj === undefined ? {} : { oomScoreAdj }),
    ...(input.apparmorProfile === undefined || input.privileged === true
      ? {}
      : { apparmorProfile: input.apparmorProfile }),
  };
}

function containerNamespaces(input: ContainerSpecInput): OciNamespace[] {
  const { pid, ipc, uts, network } = input.namespaces;
  const namespaces = [
    ...namespaceEntry('pid', pid),
    ...namespaceEntry('ipc', ipc),
    ...namespaceEntry('uts', uts),
    ...namespaceEntry('network', network),
    ...namespaceEntry('mount', { kind: 'new' }),
  ];
  if (input.userNamespace !== undefined) namespaces.push({ type: 'user', path: input.userNamespace });
  // On v1 the peers leave it out, and programs expect to see their path there.
  if (input.host.cgroupMode === 'v2' && input.privileged !== true) namespaces.push({ type: 'cgroup' });
  return namespaces;
}

export function namespaceEntry(type: OciNamespaceType, choice: NamespaceChoice): OciNamespace[] {
  switch (choice.kind) {
    case 'new':
      return [{ type }];
    case 'path':
      return [{ type, path: choice.path }];
    case 'host':
      return [];
  }
}

function firstOf(...values: readonly (string | undefined)[]): string | undefined {
  return values.find((value) => value !== undefined && value !== '');
}
