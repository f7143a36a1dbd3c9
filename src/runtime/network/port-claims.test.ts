import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PortMapping } from './host-ports.ts';
import { PortClaims, type PortHolder } from './port-claims.ts';

const web: PortMapping = { protocol: 'tcp', containerPort: 80, hostPort: 8000 };
const holder = (name: string, port: PortMapping = web): PortHolder => ({
  sandboxId: name,
  pod: `default/${name}`,
  ports: [port],
});

await test('a port that somebody is about to get is taken', () => {
  const claims = new PortClaims({ monotonicMs: () => 0 });
  claims.claim(holder('a'), [], []);
  assert.throws(() => {
    claims.claim(holder('b'), [], []);
  }, /host port 8000\/tcp is taken by pod default\/a/);
  claims.claim(holder('a'), [], []);
  claims.claim(holder('c', { ...web, protocol: 'udp' }), [], []);
  claims.drop('a');
  claims.claim(holder('b'), [], []);
});

await test('what the ledger or the host has is taken, and a refused claim holds nothing', () => {
  const claims = new PortClaims({ monotonicMs: () => 0 });
  assert.throws(() => {
    claims.claim(holder('b'), [holder('a')], []);
  }, /taken by pod default\/a/);
  assert.throws(() => {
    claims.claim(holder('b'), [], [{ protocol: 'tcp', port: 8000, address: '' }]);
  }, /a process on this host listens on it/);
  claims.claim(holder('c'), [], []);
});

await test('what the host publishes already is taken, unless it is a pod of ours', () => {
  const claims = new PortClaims({ monotonicMs: () => 0 });
  const theirs = { by: 'iptables', protocol: 'tcp', port: 8000, address: '', containerId: 'x', network: 'n' } as const;
  assert.throws(() => {
    claims.claim(holder('b'), [], [], [theirs]);
  }, /host port 8000\/tcp is taken: another runtime on this host has published it for the pod sandbox x on network n/);
  claims.claim(holder('c', { ...web, hostPort: 8001 }), [], [], [theirs]);
  claims.claim(holder('d', { ...web, hostIp: '192.0.2.1' }), [], [], [{ ...theirs, address: '192.0.2.2' }]);
  claims.drop('d');
  // A pod of ours that has just left: its rules were read before, its entry was looked for afterwards.
  claims.claim(holder('e'), [], [], [theirs], new Set(['x']));
});

await test('a claim that nobody used ends', () => {
  let nowMs = 0;
  const claims = new PortClaims({ monotonicMs: () => nowMs });
  claims.claim(holder('a'), [], []);
  nowMs = 30_000;
  claims.claim(holder('b'), [], []);
});
