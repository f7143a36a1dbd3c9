import type { Op } from '../../lib/abort.ts';
import type { Iptables, IptablesRule } from './iptables.ts';

/**
 * The chains that the `portmap` plug-in makes at its first call and never removes. Other software that uses the plug-in
 * shares them, so they go only if we saw them come and nobody has a port in them any more.
 */
const DNAT = 'CNI-HOSTPORT-DNAT';
const MASQUERADE = 'CNI-HOSTPORT-MASQ';
const SET_MARK = 'CNI-HOSTPORT-SETMARK';

/** The plug-in's own jumps into them. */
const JUMPS: readonly IptablesRule[] = [
  ...['PREROUTING', 'OUTPUT'].map((chain) => jump(chain, ['-m', 'addrtype', '--dst-type', 'LOCAL', '-j', DNAT])),
  jump('POSTROUTING', ['-m', 'comment', '--comment', 'CNI portfwd requiring masquerade', '-j', MASQUERADE]),
];

function jump(chain: string, spec: readonly string[]): IptablesRule {
  return { table: 'nat', chain, place: 'append', spec };
}

export async function portmapChainsExist(op: Op, iptables: Iptables): Promise<boolean> {
  return (await iptables.list(op, 'nat')).includes(`-N ${DNAT}`);
}

/** Leaves them when a port of anybody is still published through them. */
export async function removePortmapChains(op: Op, iptables: Iptables): Promise<void> {
  const before = await iptables.list(op, 'nat');
  if (before.some((line) => line.startsWith(`-A ${DNAT} `))) return;
  const there = [DNAT, MASQUERADE, SET_MARK].filter((chain) => before.includes(`-N ${chain}`));
  for (const rule of JUMPS) if (there.includes(rule.spec.at(-1) ?? '')) await iptables.remove(op, rule);
  for (const chain of there) await iptables.removeChain(op, 'nat', chain);
}
