import { join, resolve } from 'node:path';
import type { Op } from '../../../lib/abort.ts';
import { namesIn } from '../../../lib/may-be-gone.ts';
import { bridgePorts, listBridges } from '../../../linux/network-interfaces.ts';
import { bridgeName } from '../../network/default-network.ts';
import { describeRule, parseRule, type Iptables, type IptablesRule } from '../../network/iptables.ts';
import { DEFAULT_DATA_DIR, reservationsIn } from '../../network/reservations.ts';
import type { Found } from '../inventory.ts';

/**
 * Reservations in our own folder one by one; those of others counted by network: where host-local keeps them unless told otherwise
 * (every runtime of this machine), and in `sharedDirs`, where the networks in use tell it to.
 */
export async function findAddresses(
  ipamDir: string,
  sharedDirs: readonly string[],
  isOurs: (id: string) => boolean,
): Promise<Found[]> {
  const found: Found[] = [];
  for (const network of await namesIn(ipamDir)) {
    for (const { path, id } of await reservationsIn(join(ipamDir, network))) {
      found.push({ kind: 'cni', key: path, ids: [id] });
    }
  }
  const shared = new Set([DEFAULT_DATA_DIR, ...sharedDirs].map((path) => resolve(path)));
  shared.delete(resolve(ipamDir));
  for (const dir of shared) {
    for (const network of await namesIn(dir)) {
      const folder = join(dir, network);
      const others = (await reservationsIn(folder)).filter(({ id }) => !isOurs(id));
      if (others.length === 0) continue;
      const note = others.length === 1 ? '1 address' : `${String(others.length)} addresses`;
      found.push({ kind: 'cni', key: folder, foreign: "not this Gantry's", note });
    }
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
