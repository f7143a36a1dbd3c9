import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkLedgerData } from './ledger-data.ts';

const TASK = { id: 'i', bundleDir: '/b', cgroupPath: '/c', runtime: { name: 'crun', path: '/p', root: '/r' } };
const PLAN = { version: 1, network: {}, attachment: {} };

test('an entry that says what releasing it needs is whole', () => {
  for (const [kind, data] of [
    ['task', TASK],
    ['cni', { plan: PLAN, netnsPath: '/n' }],
    ['iptables-rule', { rule: {} }],
    ['cni-bridge', { network: {} }],
    ['directory', {}],
    ['pin', {}],
    ['of-a-later-version', {}],
  ] as const)
    assert.doesNotThrow(() => checkLedgerData(kind, data), kind);
});

test('one that does not is damaged', () => {
  for (const [kind, data] of [
    ['task', {}],
    ['task', { ...TASK, bundleDir: 7 }],
    ['task', { ...TASK, runtime: null }],
    ['cni', {}],
    ['cni', { plan: null }],
    ['cni', { plan: { ...PLAN, network: 'x' } }],
    ['cni', { plan: { ...PLAN, version: 0 } }],
    ['iptables-rule', {}],
    ['cni-bridge', { network: 'br' }],
  ] as const)
    assert.throws(() => checkLedgerData(kind, data), /data|plan/, `${kind} ${JSON.stringify(data)}`);
});
