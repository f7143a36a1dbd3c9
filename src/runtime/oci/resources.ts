import { invalidArgument } from '../../lib/errors.ts';
import type { ContainerSpecInput, HostFacts, ResourcesInput } from './container-spec-input.ts';
import type { OciDevice, OciDeviceRule, OciResources } from './spec.ts';

/** Limits in the OCI's shape. Zero or absent means not limited, as in the CRI. */
export function containerResources(
  host: HostFacts,
  input: ResourcesInput = {},
  deviceRules: readonly OciDeviceRule[] = [],
): OciResources {
  const cpu = compact({
    shares: positive(input.cpuShares),
    // -1 is the kernel's word for no quota.
    quota: input.cpuQuotaUs === 0 ? undefined : input.cpuQuotaUs,
    period: positive(input.cpuPeriodUs),
    cpus: nonEmpty(input.cpusetCpus),
    mems: nonEmpty(input.cpusetMems),
  });
  const limit = positive(input.memoryLimitBytes);
  const memory = compact({
    limit,
    // Without swap accounting the file is not there, and with -1 or more than the limit nothing would be limited anyway.
    swap: host.swapAccounting && limit !== undefined ? nonZero(input.memorySwapLimitBytes) : undefined,
  });
  const hugepages = (input.hugepageLimits ?? [])
    .filter(({ pageSize }) => host.hugePageSizes.includes(pageSize))
    .map(({ pageSize, limitBytes }) => ({ pageSize, limit: limitBytes }));
  const unified = Object.keys(input.unified ?? {}).length > 0 ? input.unified : undefined;
  if (unified !== undefined && host.cgroupMode !== 'v2') {
    throw invalidArgument(`resources.unified needs cgroup v2; this host has ${host.cgroupMode}`);
  }
  return compact({
    devices: deviceRules,
    cpu: Object.keys(cpu).length > 0 ? cpu : undefined,
    memory: Object.keys(memory).length > 0 ? memory : undefined,
    hugepageLimits: hugepages.length > 0 ? hugepages : undefined,
    unified,
  });
}

/** Below our own value only where we may go there: else the OCI runtime fails outright (PARTS.md 9). */
export function clampOomScoreAdj(
  host: Pick<HostFacts, 'oomScoreAdj' | 'mayLowerOomScoreAdj'>,
  wanted: number | undefined,
): number | undefined {
  if (wanted === undefined) return undefined;
  const bounded = Math.max(-1000, Math.min(1000, wanted));
  return host.mayLowerOomScoreAdj ? bounded : Math.max(bounded, host.oomScoreAdj);
}

/** The nodes that a container gets besides the OCI runtime's own (null, zero, tty …), and what it may do with them. */
export function containerDevices({
  privileged = false,
  devices = [],
  hostDevices = [],
}: Pick<ContainerSpecInput, 'privileged' | 'devices' | 'hostDevices'>): {
  readonly nodes: readonly OciDevice[];
  readonly rules: readonly OciDeviceRule[];
} {
  const rules: OciDeviceRule[] = [{ allow: false, access: 'rwm' }];
  const nodes: OciDevice[] = [];
  for (const { containerPath, device, permissions } of devices) {
    nodes.push({ ...device, path: containerPath });
    if (device.type !== 'c' && device.type !== 'b') continue;
    rules.push({
      allow: true,
      type: device.type,
      major: device.major,
      minor: device.minor,
      access: permissions,
    });
  }
  if (!privileged) return { nodes, rules };
  const named = new Set(nodes.map(({ path }) => path));
  return {
    nodes: [...hostDevices.filter(({ path }) => !named.has(path)), ...nodes],
    rules: [{ allow: true, access: 'rwm' }],
  };
}

function positive(value: number | undefined): number | undefined {
  return value !== undefined && value > 0 ? value : undefined;
}

function nonZero(value: number | undefined): number | undefined {
  return value === 0 ? undefined : value;
}

function nonEmpty(value: string | undefined): string | undefined {
  return value === '' ? undefined : value;
}

/** Without the members that are undefined: an OCI runtime takes `null` and absence for different things. */
function compact<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as T;
}
