import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultInterface, parseNetDev } from './net-dev.ts';

/** Recorded inside a pod. */
const TEXT = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     168       2    0    0    0     0          0         0      168       2    0    0    0     0       0          0
  net1:      70       1    0    0    0     0          0         0        0       0    0    0    0     0       0          0
  eth0: 18446744073709551615   1021    3    4    0     0          0         0    51200     640    5    6    0     0       0          0
`;

test('what went through each interface but the loopback', () => {
  const [net1, eth0, ...others] = parseNetDev(TEXT);
  assert.equal(net1?.name, 'net1');
  assert.deepEqual(eth0, {
    name: 'eth0',
    received: { bytes: 18_446_744_073_709_551_615n, packets: 1_021n, errors: 3n, dropped: 4n },
    sent: { bytes: 51_200n, packets: 640n, errors: 5n, dropped: 6n },
  });
  assert.deepEqual(others, []);
});

test('older kernels put no blank after the colon, and a name may have one itself', () => {
  const counters = '1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0';
  assert.equal(parseNetDev(`eth0:${counters}\n`)[0]?.received.bytes, 1n);
  assert.equal(parseNetDev(` eth0:1:${counters}\n`)[0]?.name, 'eth0:1');
});

test("CNI's first interface stands for the pod, else whichever comes first", () => {
  const interfaces = parseNetDev(TEXT);
  assert.equal(defaultInterface(interfaces)?.name, 'eth0');
  assert.equal(defaultInterface(interfaces.slice(0, 1))?.name, 'net1');
  assert.equal(defaultInterface([]), undefined);
});
