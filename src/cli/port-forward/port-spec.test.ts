import assert from 'node:assert/strict';
import { test } from 'node:test';
import { examplePod } from '../../kube/api/fake-api.ts';
import type { Pod } from '../../kube/objects.ts';
import { parseListenAddresses, shownAddress } from './listen-address.ts';
import { parsePortSpec } from './port-spec.ts';

const ports = [
  { containerPort: 8080, name: 'http' },
  { containerPort: 53, name: 'dns', protocol: 'UDP' },
  { containerPort: 853, protocol: 'UDP' },
  { containerPort: 853 },
];
const pod = examplePod('web', { containers: [{ name: 'main', image: 'i', ports }] }) as Pod;

for (const [text, local, remote] of [
  ['5000', 5000, 5000],
  ['8888:5000', 8888, 5000],
  [':5000', 0, 5000],
  ['0:5000', 0, 5000],
  ['http', 8080, 8080],
  [':http', 0, 8080],
  ['80:http', 80, 8080],
  ['853', 853, 853],
  ['65535:1', 65535, 1],
] as const) {
  test(`port ${text}`, () => assert.deepEqual(parsePortSpec(text, pod), { local, remote }));
}

for (const [text, message] of [
  ['1:2:3', "invalid port format '1:2:3'"],
  ['', 'remote port cannot be empty'],
  ['80:', 'remote port cannot be empty'],
  ['0', 'remote port must be > 0'],
  ['80:0', 'remote port must be > 0'],
  ['70000', "error parsing remote port '70000': it should be a number from 0 to 65535"],
  ['x:80', "error parsing local port 'x': it should be a number from 0 to 65535"],
  ['-1:80', "error parsing local port '-1': it should be a number from 0 to 65535"],
  ['nope', "Pod 'web' does not have a named port 'nope'"],
  ['53', 'UDP protocol is not supported for 53'],
  ['dns', 'UDP protocol is not supported for dns'],
] as const) {
  test(`port ${text}: ${message}`, () => {
    assert.throws(() => parsePortSpec(text, pod), { kind: 'InvalidArgument', message });
  });
}

test('localhost stands for two addresses, one of which is enough', () => {
  const both = [
    { address: '127.0.0.1', ofLocalhost: true },
    { address: '::1', ofLocalhost: true },
  ];
  assert.deepEqual(parseListenAddresses('localhost'), both);
  assert.deepEqual(parseListenAddresses('localhost,127.0.0.1, 10.0.0.1'), [
    { address: '127.0.0.1', ofLocalhost: false },
    both[1],
    { address: '10.0.0.1', ofLocalhost: false },
  ]);
  for (const wrong of ['example.org', '', '10.0.0.1,', '1.2.3']) {
    assert.throws(() => parseListenAddresses(wrong), { kind: 'InvalidArgument', message: /is not a valid IP$/ });
  }
  assert.equal(shownAddress('::1', 80), '[::1]:80');
  assert.equal(shownAddress('127.0.0.1', 80), '127.0.0.1:80');
});
