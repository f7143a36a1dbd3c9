import type {
  CpuUsage as CriCpu,
  IoUsage,
  MemoryUsage as CriMemory,
  NetworkInterfaceUsage,
  NetworkUsage,
  PsiData,
  PsiStats,
  SwapUsage,
} from '../../cri/gen/api.ts';
import { toNanoseconds } from '../../cri/nanoseconds.ts';
import { workingSetOf, type CgroupUsage, type Pressure, type PressureLine } from './cgroup-usage.ts';
import { defaultInterface, type InterfaceCounters } from './net-dev.ts';

const NS_PER_US = 1000n;

/** CRI's picture of what a cgroup has used. A value that the host does not have, or that has no bound, is absent. */
export interface CriUsage {
  readonly cpu: CriCpu;
  readonly memory: CriMemory | undefined;
  readonly swap: SwapUsage | undefined;
  readonly io: IoUsage | undefined;
}

/** Pure. `nanoCores` is undefined until there is a window to tell a rate over. */
export function criUsage(usage: CgroupUsage, nanoCores: bigint | undefined): CriUsage {
  const timestamp = toNanoseconds(usage.takenAtWallMs);
  return {
    cpu: {
      timestamp,
      usageCoreNanoSeconds: { value: usage.cpu.totalNs },
      usageNanoCores: optional(nanoCores),
      psi: criPressure(usage.cpu.pressure),
    },
    memory: criMemory(usage, timestamp),
    swap: criSwap(usage, timestamp),
    io: usage.ioPressure === undefined ? undefined : { timestamp, psi: criPressure(usage.ioPressure) },
  };
}

/** CRI's picture of a pod's network. Pure. */
export function criNetwork(interfaces: readonly InterfaceCounters[], takenAtWallMs: number): NetworkUsage {
  const main = defaultInterface(interfaces);
  return {
    timestamp: toNanoseconds(takenAtWallMs),
    defaultInterface: main === undefined ? undefined : criInterface(main),
    interfaces: interfaces.map(criInterface),
  };
}

function criInterface({ name, received, sent }: InterfaceCounters): NetworkInterfaceUsage {
  return {
    name,
    rxBytes: { value: received.bytes },
    rxErrors: { value: received.errors },
    txBytes: { value: sent.bytes },
    txErrors: { value: sent.errors },
  };
}

function criMemory({ memory }: CgroupUsage, timestamp: bigint): CriMemory | undefined {
  if (memory === undefined) return undefined;
  const workingSet = workingSetOf(memory);
  return {
    timestamp,
    workingSetBytes: { value: workingSet },
    availableBytes: optional(remaining(memory.limit, workingSet)),
    usageBytes: { value: memory.usage },
    rssBytes: { value: memory.rss },
    pageFaults: { value: memory.pageFaults },
    majorPageFaults: { value: memory.majorPageFaults },
    psi: criPressure(memory.pressure),
  };
}

function criSwap({ memory }: CgroupUsage, timestamp: bigint): SwapUsage | undefined {
  if (memory?.swap === undefined) return undefined;
  const { usage, limit } = memory.swap;
  return { timestamp, swapAvailableBytes: optional(remaining(limit, usage)), swapUsageBytes: { value: usage } };
}

function remaining(limit: bigint | undefined, used: bigint): bigint | undefined {
  if (limit === undefined) return undefined;
  return limit > used ? limit - used : 0n;
}

function optional(value: bigint | undefined): { value: bigint } | undefined {
  return value === undefined ? undefined : { value };
}

function criPressure(pressure: Pressure | undefined): PsiStats | undefined {
  if (pressure === undefined) return undefined;
  return { Full: criPressureLine(pressure.full), Some: criPressureLine(pressure.some) };
}

function criPressureLine(line: PressureLine | undefined): PsiData | undefined {
  if (line === undefined) return undefined;
  return { Total: line.totalUs * NS_PER_US, Avg10: line.avg10, Avg60: line.avg60, Avg300: line.avg300 };
}
