import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ListPodSandboxStatsRequest, NamespaceMode, type PodSandboxStats } from '../../../src/cri/gen/api.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { container, op, pod, RuntimeFixture } from '../runtime/runtime-fixture.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const PINGS = 20;
const PING_BYTES = 1_000;

async function statsOf(fixture: RuntimeFixture, podSandboxId: string): Promise<PodSandboxStats> {
  const { stats } = await fixture.cri.podSandboxStats(op, { podSandboxId });
  assert.ok(stats !== undefined);
  return stats;
}

async function listed(fixture: RuntimeFixture, filter: object = {}): Promise<string[]> {
  const request = ListPodSandboxStatsRequest.fromPartial({ filter });
  const { stats } = await fixture.cri.listPodSandboxStats(op, request);
  return stats.map(({ attributes }) => attributes?.metadata?.name ?? '').sort();
}

const sentBy = ({ linux }: PodSandboxStats): bigint => linux?.network?.defaultInterface?.txBytes?.value ?? -1n;
const receivedBy = ({ linux }: PodSandboxStats): bigint => linux?.network?.defaultInterface?.rxBytes?.value ?? -1n;

test('usage of real pods', { skip }, async (t) => {
  await using fixture = await RuntimeFixture.make();
  const leaks = await LeakCheck.begin(fixture.root.leakRoots());
  const config = pod(fixture.root, 'talker', { network: NamespaceMode.POD });
  const talker = await fixture.runSandbox(config);
  const onHost = await fixture.runSandbox(pod(fixture.root, 'on-host'));

  await t.test('a pod without a process has a network all the same', async () => {
    const { linux } = await statsOf(fixture, talker);
    assert.deepEqual(
      linux?.network?.interfaces.map(({ name }) => name),
      ['eth0'],
    );
    assert.equal(linux.process?.processCount?.value, 0n);
    assert.deepEqual(linux.containers, []);
  });

  const [shell, loop] = await Promise.all([
    fixture.runContainer(talker, config, container('shell', ['sleep', '1000'])),
    fixture.runContainer(talker, config, container('loop', ['sh', '-c', 'while :; do :; done'])),
  ]);

  await t.test('what goes through its interface is counted', async () => {
    const before = await statsOf(fixture, talker);
    const route = (await fixture.exec(shell, 'route', '-n')).stdout;
    const gateway = /^0\.0\.0\.0\s+(\S+)/m.exec(route)?.[1];
    assert.ok(gateway !== undefined, route);
    const pinged = await fixture.exec(
      shell,
      'ping',
      '-c',
      String(PINGS),
      '-i',
      '0.05',
      '-s',
      String(PING_BYTES),
      gateway,
    );
    assert.equal(pinged.exitCode, 0, pinged.stdout + pinged.stderr);
    const after = await statsOf(fixture, talker);
    for (const counted of [sentBy(after) - sentBy(before), receivedBy(after) - receivedBy(before)]) {
      assert.ok(counted >= PINGS * PING_BYTES && counted < 2 * PINGS * PING_BYTES, String(counted));
    }
  });

  await t.test('processor time and processes are those of all its containers', async () => {
    await systemClock.sleep(1_200);
    const { linux } = await statsOf(fixture, talker);
    assert.equal(linux?.process?.processCount?.value, 2n);
    const [first, second, ...others] = linux.containers;
    assert.deepEqual(others, []);
    const sum = [first, second].reduce((total, each) => total + (each?.cpu?.usageCoreNanoSeconds?.value ?? 0n), 0n);
    assert.ok((linux.cpu?.usageCoreNanoSeconds?.value ?? 0n) >= (sum * 9n) / 10n);
    assert.ok((linux.cpu?.usageNanoCores?.value ?? 0n) > 0n);
    assert.ok((linux.memory?.workingSetBytes?.value ?? 0n) > 0n);
    assert.equal(
      linux.containers.find(({ attributes }) => attributes?.id === loop)?.attributes?.metadata?.name,
      'loop',
    );
  });

  await t.test("a pod in the host's network has none of its own", async () => {
    const { attributes, linux } = await statsOf(fixture, onHost);
    assert.equal(attributes?.metadata?.name, 'on-host');
    assert.equal(linux?.network, undefined);
    assert.ok(linux?.cpu !== undefined);
  });

  await t.test('the list has the ready ones that the filter names', async () => {
    assert.deepEqual(await listed(fixture), ['on-host', 'talker']);
    assert.deepEqual(await listed(fixture, { id: talker.slice(0, 13) }), ['talker']);
    assert.deepEqual(await listed(fixture, { labelSelector: { app: 'on-host' } }), ['on-host']);
    await fixture.cri.stopPodSandbox(op, { podSandboxId: onHost });
    assert.deepEqual(await listed(fixture), ['talker']);
    await assert.rejects(statsOf(fixture, onHost), { kind: 'FailedPrecondition' });
    await assert.rejects(statsOf(fixture, 'nobody'), { kind: 'NotFound' });
  });

  await Promise.all([talker, onHost].map((id) => fixture.endPod(id)));
  await leaks.assertNone();
});
