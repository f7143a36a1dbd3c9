import type { CgroupChange } from './cgroup-changes.ts';
import { resourceWrites, type CgroupResources, type CgroupWrite } from './cgroup-resources.ts';
import { members } from './cpu-list.ts';

/** One property of a unit, as systemd's D-Bus interface has it: its name, the signature of its value, and that in words. */
export type UnitProperty = readonly [name: string, signature: string, ...value: readonly string[]];

/** What systemd takes for no limit. */
export const INFINITY = String(2n ** 64n - 1n);
const US_PER_SECOND = 1_000_000n;
/** systemd keeps a share of a processor in hundredths of a percent, and cuts off the rest. */
const KEPT_US = 100n;

/** Files of cgroup v2 that hold a number or `max`, and the property that stands for each. */
const NUMBERS: ReadonlyMap<string, string> = new Map([
  ['cpu.weight', 'CPUWeight'],
  ['memory.min', 'MemoryMin'],
  ['memory.low', 'MemoryLow'],
  ['memory.high', 'MemoryHigh'],
  ['memory.max', 'MemoryMax'],
  ['memory.swap.max', 'MemorySwapMax'],
  ['pids.max', 'TasksMax'],
]);

/** Files of cgroup v2 that hold a set, and the property that stands for each. */
const SETS: ReadonlyMap<string, string> = new Map([
  ['cpuset.cpus', 'AllowedCPUs'],
  ['cpuset.mems', 'AllowedMemoryNodes'],
]);

/** Limits of a unit that is made. Pure. */
export function limitProperties(limits: CgroupResources): UnitProperty[] {
  return resourceWrites('v2', limits).flatMap(propertiesOf);
}

/**
 * What a unit has to be told of files of its cgroup that were changed, so that systemd does not write over them what it knows. Of files that
 * it knows nothing about (huge pages, say): nothing. Pure.
 */
export function changeProperties(changes: readonly CgroupChange[]): UnitProperty[] {
  return changes.flatMap(propertiesOf);
}

function propertiesOf({ file, value }: Pick<CgroupWrite, 'file' | 'value'>): UnitProperty[] {
  if (file === 'cpu.max') return quotaOf(value);
  const number = NUMBERS.get(file);
  if (number !== undefined) return [[number, 't', value === 'max' ? INFINITY : value]];
  const set = SETS.get(file);
  return set === undefined ? [] : [[set, 'ay', ...maskOf(value)]];
}

/** `50000 100000`: time per period, in µs. Never less than that. */
function quotaOf(value: string): UnitProperty[] {
  const [quota = 'max', period = '100000'] = value.split(' ');
  const perSecond =
    quota === 'max' ? INFINITY : String(roundedUp((BigInt(quota) * US_PER_SECOND) / BigInt(period), KEPT_US));
  return [
    ['CPUQuotaPerSecUSec', 't', perSecond],
    ['CPUQuotaPeriodUSec', 't', period],
  ];
}

function roundedUp(value: bigint, step: bigint): bigint {
  return ((value + step - 1n) / step) * step;
}

/** `0-3,9` as an array of bytes, the lowest first, with its length before it. */
function maskOf(list: string): string[] {
  const numbers = members(list);
  const bytes = new Uint8Array(numbers.length === 0 ? 0 : Math.floor(Math.max(...numbers) / 8) + 1);
  for (const number of numbers) {
    const at = Math.floor(number / 8);
    bytes[at] = (bytes[at] ?? 0) | (1 << (number % 8));
  }
  return [bytes.length, ...bytes].map(String);
}
