import { invalidArgument, withContext } from '../../lib/errors.ts';
import type { OciCapabilities } from './spec.ts';

/** By bit number, as the kernel numbers them. */
export const CAPABILITIES: readonly string[] = [
  ...['CAP_CHOWN', 'CAP_DAC_OVERRIDE', 'CAP_DAC_READ_SEARCH', 'CAP_FOWNER', 'CAP_FSETID', 'CAP_KILL', 'CAP_SETGID'],
  ...['CAP_SETUID', 'CAP_SETPCAP', 'CAP_LINUX_IMMUTABLE', 'CAP_NET_BIND_SERVICE', 'CAP_NET_BROADCAST'],
  ...['CAP_NET_ADMIN', 'CAP_NET_RAW', 'CAP_IPC_LOCK', 'CAP_IPC_OWNER', 'CAP_SYS_MODULE', 'CAP_SYS_RAWIO'],
  ...['CAP_SYS_CHROOT', 'CAP_SYS_PTRACE', 'CAP_SYS_PACCT', 'CAP_SYS_ADMIN', 'CAP_SYS_BOOT', 'CAP_SYS_NICE'],
  ...['CAP_SYS_RESOURCE', 'CAP_SYS_TIME', 'CAP_SYS_TTY_CONFIG', 'CAP_MKNOD', 'CAP_LEASE', 'CAP_AUDIT_WRITE'],
  ...['CAP_AUDIT_CONTROL', 'CAP_SETFCAP', 'CAP_MAC_OVERRIDE', 'CAP_MAC_ADMIN', 'CAP_SYSLOG', 'CAP_WAKE_ALARM'],
  ...['CAP_BLOCK_SUSPEND', 'CAP_AUDIT_READ', 'CAP_PERFMON', 'CAP_BPF', 'CAP_CHECKPOINT_RESTORE'],
];

/** What a container has that asks for nothing: the set that docker chose and everybody kept. */
export const DEFAULT_CAPABILITIES: readonly string[] = [
  ...['CAP_AUDIT_WRITE', 'CAP_CHOWN', 'CAP_DAC_OVERRIDE', 'CAP_FOWNER', 'CAP_FSETID', 'CAP_KILL', 'CAP_MKNOD'],
  ...[
    'CAP_NET_BIND_SERVICE',
    'CAP_NET_RAW',
    'CAP_SETFCAP',
    'CAP_SETGID',
    'CAP_SETPCAP',
    'CAP_SETUID',
    'CAP_SYS_CHROOT',
  ],
];

export interface CapabilityRequest {
  readonly privileged?: boolean;
  readonly add?: readonly string[];
  readonly drop?: readonly string[];
  readonly addAmbient?: readonly string[];
}

export interface CapabilityDecision {
  readonly capabilities: OciCapabilities;
  /** Asked for by name, and not ours to give: outside the daemon's own bounding set. */
  readonly refused: readonly string[];
}

/**
 * The CRI's rules: `ALL` first (added or dropped), then what is added by name, then what is dropped by name; dropping
 * wins. Clamped to what the daemon may hand on. Throws InvalidArgument for a name that is no capability.
 */
export function decideCapabilities(request: CapabilityRequest, bounding: readonly string[]): CapabilityDecision {
  const add = capabilityNames(request.add, 'add_capabilities');
  const drop = capabilityNames(request.drop, 'drop_capabilities');
  const ambient = capabilityNames(request.addAmbient, 'add_ambient_capabilities');
  const all = request.privileged === true || add.includes('ALL') || ambient.includes('ALL');
  const wanted = new Set(all ? bounding : DEFAULT_CAPABILITIES);
  if (request.privileged !== true && drop.includes('ALL')) wanted.clear();
  const named = [...add, ...ambient].filter((name) => name !== 'ALL');
  for (const name of named) wanted.add(name);
  if (request.privileged !== true) for (const name of drop) wanted.delete(name);
  const given = sorted([...wanted].filter((name) => bounding.includes(name)));
  const raised = given.filter((name) => ambient.includes(name) || ambient.includes('ALL'));
  return {
    capabilities: { bounding: given, effective: given, permitted: given, inheritable: raised, ambient: raised },
    refused: sorted(named.filter((name) => wanted.has(name) && !bounding.includes(name))),
  };
}

function capabilityNames(texts: readonly string[] = [], field: string): string[] {
  return texts.map((text, i) => {
    try {
      return capabilityName(text);
    } catch (error) {
      throw withContext(`${field}[${String(i)}]`, error);
    }
  });
}

export function capabilityName(text: string): string {
  const upper = text.toUpperCase();
  if (upper === 'ALL') return upper;
  const name = upper.startsWith('CAP_') ? upper : `CAP_${upper}`;
  if (!CAPABILITIES.includes(name)) throw invalidArgument(`${text}: no such capability`);
  return name;
}

/** A mask as /proc/PID/status shows it (hexadecimal). Bits that this table has no name for are left out. */
export function capabilitiesOfMask(hex: string): string[] {
  const mask = BigInt(`0x${hex}`);
  return CAPABILITIES.filter((_name, bit) => (mask >> BigInt(bit)) & 1n);
}

function sorted(names: readonly string[]): string[] {
  return [...new Set(names)].sort((a, b) => CAPABILITIES.indexOf(a) - CAPABILITIES.indexOf(b));
}
