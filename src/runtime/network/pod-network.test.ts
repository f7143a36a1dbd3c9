import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../lib/fake-clock.ts';
import type { Ledger } from '../../lib/ledger.ts';
import { silentLog } from '../../lib/log.ts';
import { PodNetwork } from './pod-network.ts';

test('a repair that is under way when all is closed is the last one', async () => {
  const clock = new FakeClock();
  const release = Promise.withResolvers<undefined>();
  const ledger = {
    owners: () => [],
    entriesOf: () => [{ kind: 'cni-bridge', key: 'br', data: { network: { bridge: 'br', subnet: '192.0.2.0/24' } } }],
    release: () => release.promise,
  } as unknown as Ledger;
  const networks = new PodNetwork({
    ...{ clock, log: silentLog, ledger, instance: 'test0000', confDir: '/no/such', binDirs: [], ipamDir: '/no/such' },
    defaultNetwork: true,
  });
  networks.start();
  assert.equal(clock.pendingTimers, 1);
  await clock.advance(60_000);
  const closed = networks.close();
  release.resolve(undefined);
  await clock.advance(0);
  await closed;
  assert.equal(clock.pendingTimers, 0);
});
