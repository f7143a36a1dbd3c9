import { join } from 'node:path';
import type { Op } from '../../../lib/abort.ts';
import { bridgePorts, listBridges } from '../../../linux/network-interfaces.ts';
import { bridgeName } from '../../network/default-network.ts';
import { describeRule, parseRule, type Iptables, type IptablesRule } from '../../network/iptables.ts';
import { reservationsIn } from '../../network/reservations.ts';
import type { Found } from '../inventory.ts';
import { namesIn } from './names-in.ts';

/** Where host-local keeps them unless told otherwise: every runtime of this machine. */
const SHARED_DATA = '/var/lib/cni/networks';

/** Reservations in our own folder one by one; those of others counted by network. */
export async function findAddresses(ipamDir: string, isOurs: (id: string) => boolean): Promise<Found[]> {
  const found: Found[] = [];
  for (const network of await namesIn(ipamDir)) {
    for (const { path, id } of await reservationsIn(join(ipamDir, network))) {
      found.push({ kind: 'cni', key: path, ids: [id] });
    }
  }
  for (const network of await namesIn(SHARED_DATA)) {
    const others = (await reservationsIn(join(SHARED_DATA, network))).filter(({ id }) => !isOurs(id));
    if (others.length === 0) continue;
    const note = others.length === 1 ? '1 address' : `${String(others.length)} addresses`;
    found.push({ kind: 'cni', key: join(SHARED_DATA, network), foreign: "not this Gantry's", note });
  }
  return found;
}

export async function findBridges(instance: string): Promise<Found[]> {
  const ours = bridgeName(instance);
  const found: Found[] = [];
  for (const name of await listBridges()) {
    const ports = (await bridgePorts(name)) ?? [];
    const note = ports.length === 0 ? 'nothing is plugged in' : `plugged in: ${ports.join(', ')}`;
    if (name === ours) found.push({ kind: 'cni-bridge', key: name, note });
    else {
      const foreign = name.startsWith('gtry-') ? "another Gantry's" : "not this Gantry's";
      found.push({ kind: 'cni-bridge', key: name, foreign, note });
    }
  }
  return found;
}

const TABLES: readonly IptablesRule['table'][] = ['nat', 'filter'];

/** Rules that carry the comment of a Gantry. */
export async function findRules(op: Op, iptables: Iptables, instance: string): Promise<Found[]> {
  const found: Found[] = [];
  for (const table of TABLES) {
    for (const line of await iptables.list(op, table)) {
      const rule = parseRule(table, line);
      const whose = rule === undefined ? undefined : gantryOf(rule);
      if (rule === undefined || whose === undefined) continue;
      const key = describeRule(rule);
      if (whose === instance) found.push({ kind: 'iptables-rule', key, rule });
      else found.push({ kind: 'iptables-rule', key, foreign: `of the Gantry instance ${whose}` });
    }
  }
  return found;
}

function gantryOf({ spec }: IptablesRule): string | undefined {
  return /^gantry ([a-z0-9]{1,8})$/.exec(spec[spec.indexOf('--comment') + 1] ?? '')?.[1];
}
