import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '../../lib/log.ts';
import type { PortMapping } from './host-ports.ts';
import { parseRule, type IptablesRule } from './iptables.ts';
import { mustComeFirst, parseNftables, publishedPorts, type PublishedPort } from './published-ports.ts';

const op = { signal: new AbortController().signal, log: silentLog };
const web: PortMapping = { protocol: 'tcp', containerPort: 80, hostPort: 8000 };

/** As `iptables -t nat -S` of iptables 1.8.9 writes what portmap 1.1.1 made. */
const RULES = `-N CNI-HOSTPORT-DNAT
-A CNI-DN-17c8b67cfee6982a4cde6 -s 10.238.0.0/16 -p tcp -m tcp --dport 8000 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-17c8b67cfee6982a4cde6 -p tcp -m tcp --dport 8000 -j DNAT --to-destination 10.238.0.2:80
-A CNI-DN-17c8b67cfee6982a4cde6 -p tcp -m tcp --dport 8001 -j DNAT --to-destination 10.238.0.2:81
-A CNI-DN-81fefa6612c9f7d1bcb32 -d 192.0.2.7/32 -p udp -m udp --dport 8000 -j DNAT --to-destination 10.225.0.2:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \\"gantry-a\\" id: \\"aaa\\"" -m multiport --dports 8000,8001 -j CNI-DN-17c8b67cfee6982a4cde6
-A CNI-HOSTPORT-DNAT -p udp -m comment --comment "dnat name: \\"cbr0\\" id: \\"bbb\\"" -m multiport --dports 8000 -j CNI-DN-81fefa6612c9f7d1bcb32
`.split('\n');

function chainsOf(lines: readonly string[], asked: string[] = []): Parameters<typeof publishedPorts>[1] {
  const rules = lines.flatMap((line): IptablesRule[] => {
    const rule = parseRule('nat', line);
    return rule === undefined ? [] : [rule];
  });
  return {
    listChain: (_op, _table, chain) => {
      asked.push(chain);
      return Promise.resolve(rules.filter((rule) => rule.chain === chain));
    },
  };
}

test("who has a port by portmap's rules: protocol, address, whose", async () => {
  const asked: string[] = [];
  const found = await publishedPorts(op, chainsOf(RULES, asked), [web]);
  const [a] = found.filter(({ port }) => port === 8000);
  assert.deepEqual(a, {
    ...{ by: 'iptables', protocol: 'tcp', port: 8000, address: '', containerId: 'aaa', network: 'gantry-a' },
  });
  assert.deepEqual(asked, ['CNI-HOSTPORT-DNAT', 'CNI-DN-17c8b67cfee6982a4cde6'], 'nothing is read that cannot matter');
  const [b] = await publishedPorts(op, chainsOf(RULES), [{ ...web, protocol: 'udp' }]);
  assert.deepEqual([b?.protocol, b?.address, b?.containerId], ['udp', '192.0.2.7', 'bbb']);
  assert.deepEqual(await publishedPorts(op, chainsOf([]), [web]), []);
});

/** As `nft -j list table ip cni_hostport` writes the rules of portmap's nftables side, which knows of no network's name. */
const payload = (protocol: string, field: string, right: unknown): unknown => ({
  match: { op: '==', left: { payload: { protocol, field } }, right },
});
const nftRule = (comment: string, ...expr: unknown[]): unknown => ({
  rule: { family: 'ip', table: 'cni_hostport', chain: 'hostports', handle: 7, comment, expr },
});
const NFT = JSON.stringify({
  nftables: [
    { metainfo: { json_schema_version: 1 } },
    { table: { family: 'ip', name: 'cni_hostport', handle: 1 } },
    nftRule('ccc', payload('tcp', 'dport', 8000), { dnat: { addr: '10.1.0.2', port: 80 } }),
    nftRule('ddd', payload('ip', 'daddr', '192.0.2.7'), payload('udp', 'dport', 53), { dnat: { addr: '10.1.0.3' } }),
    {
      rule: { chain: 'masquerading', comment: 'ccc', expr: [payload('ip', 'saddr', '10.1.0.2'), { masquerade: null }] },
    },
  ],
});

test('the same of nftables', () => {
  assert.deepEqual(parseNftables(NFT), [
    { by: 'nftables', protocol: 'tcp', port: 8000, address: '', containerId: 'ccc' },
    { by: 'nftables', protocol: 'udp', port: 53, address: '192.0.2.7', containerId: 'ddd' },
  ]);
  assert.deepEqual(parseNftables('no JSON'), []);
});

const port = (containerId: string, more: Partial<PublishedPort> = {}): PublishedPort => ({
  ...{ by: 'iptables', protocol: 'tcp', port: 8000, address: '', containerId, ...more },
});

test('of two that have published a port, the one behind gives way', () => {
  assert.throws(() => {
    mustComeFirst([port('aaa'), port('me')], 'me', [web]);
  }, /host port 8000\/tcp is taken: another runtime on this host has published it for the pod sandbox aaa/);
  mustComeFirst([port('me'), port('aaa')], 'me', [web]);
  mustComeFirst([port('aaa', { address: '192.0.2.7' }), port('me')], 'me', [{ ...web, hostIp: '192.0.2.8' }]);
  mustComeFirst([port('aaa', { protocol: 'udp' }), port('me')], 'me', [web]);
  assert.throws(() => {
    mustComeFirst([port('me'), port('ccc', { by: 'nftables' })], 'me', [web]);
  }, /is taken/);
  mustComeFirst([port('aaa')], 'me', [web]);
});
