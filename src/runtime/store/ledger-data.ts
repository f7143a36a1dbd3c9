import { internal } from '../../lib/errors.ts';
import { readPlan, type PlainPlan } from '../network/network-plan.ts';

/**
 * What releasing each kind needs of its entry's data, beside the key; other kinds need nothing. Throws Internal when it is not there: such a
 * row is a damaged one, or whoever reads it would fail for every pod.
 */
export function checkLedgerData(kind: string, data: Readonly<Record<string, unknown>>): void {
  switch (kind) {
    case 'task':
      for (const name of ['id', 'bundleDir', 'cgroupPath']) mustHave(data, name, 'string');
      mustHave(data, 'runtime', 'object');
      return;
    case 'cni':
      mustHave(data, 'plan', 'object');
      readPlan(data['plan'] as PlainPlan);
      return;
    case 'iptables-rule':
      mustHave(data, 'rule', 'object');
      return;
    case 'cni-bridge':
      mustHave(data, 'network', 'object');
  }
}

function mustHave(data: Readonly<Record<string, unknown>>, name: string, type: 'string' | 'object'): void {
  const value = data[name];
  if (typeof value !== type || value === null) throw internal(`its data has no ${name}`);
}
