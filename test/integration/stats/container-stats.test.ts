import assert from 'node:assert/strict';
import { availableParallelism, loadavg } from 'node:os';
import { test } from 'node:test';
import { ListContainerStatsRequest, type ContainerStats, type ContainerStatsFilter } from '../../../src/cri/gen/api.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { Cgroups, detectCgroups } from '../../../src/linux/cgroups.ts';
import { FRESH_MS } from '../../../src/runtime/stats/layer-usage.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { container, op, pod, RuntimeFixture } from '../runtime/runtime-fixture.ts';

const MIB = 1024 * 1024;

async function listed(fixture: RuntimeFixture, filter: Partial<ContainerStatsFilter> = {}): Promise<ContainerStats[]> {
  const request = ListContainerStatsRequest.fromPartial({ filter });
  const { stats } = await fixture.cri.listContainerStats(op, request);
  return stats;
}

async function statsOf(fixture: RuntimeFixture, containerId: string): Promise<ContainerStats> {
  const { stats } = await fixture.cri.containerStats(op, { containerId });
  assert.ok(stats !== undefined);
  return stats;
}

const skip = process.getuid?.() !== 0 && 'needs root';

/** Runs a script and returns when it is at its end. */
async function untilWritten(fixture: RuntimeFixture, containerId: string): Promise<void> {
  while ((await fixture.exec(containerId, 'stat', '/tmp/ready')).exitCode !== 0) await systemClock.sleep(50);
}

test('usage of real containers', { skip }, async (t) => {
  await using fixture = await RuntimeFixture.make();
  const leaks = await LeakCheck.begin(fixture.root.leakRoots());
  const config = pod(fixture.root, 'measured');
  const sandboxId = await fixture.runSandbox(config);
  const run = (name: string, script: string): Promise<string> =>
    fixture.runContainer(sandboxId, config, container(name, ['sh', '-c', script]));
  const idle = await run('idle', 'exec sleep 1000');
  const busy = await run('busy', 'while :; do :; done');
  const holder = await run(
    'holder',
    `head -c ${String(32 * MIB)} /dev/zero > /dev/shm/held; touch /tmp/ready; exec sleep 1000`,
  );
  const writer = await run(
    'writer',
    `head -c ${String(8 * MIB)} /dev/zero > /written; mkdir /d; touch /tmp/ready; exec sleep 1000`,
  );
  const ended = await run('ended', 'echo hello > /left-behind');
  await fixture.waitFor(ended, ({ finishedAt }) => finishedAt !== 0n);
  let writtenMoreAtMs = 0;
  await Promise.all([holder, writer].map((id) => untilWritten(fixture, id)));

  await t.test('a busy loop takes about one processor, a sleeper none', async () => {
    await systemClock.sleep(2_000);
    const rateOf = async (id: string): Promise<number> =>
      Number((await statsOf(fixture, id)).cpu?.usageNanoCores?.value ?? -1n) / 1e9;
    const [loop, sleeper] = await Promise.all([rateOf(busy), rateOf(idle)]);
    // All of one processor, or its share of it where the machine has more to do than that.
    const atLeast = Math.min(0.8, (0.3 * availableParallelism()) / Math.max(loadavg()[0] ?? 0, 1));
    assert.ok(loop > atLeast && loop < 1.1, `busy: ${String(loop)}, expected ${String(atLeast)}`);
    assert.ok(sleeper >= 0 && sleeper < 0.05, `idle: ${String(sleeper)}`);
  });

  await t.test('processor time only grows', async () => {
    const before = (await statsOf(fixture, busy)).cpu;
    await systemClock.sleep(300);
    const after = (await statsOf(fixture, busy)).cpu;
    assert.ok(before?.usageCoreNanoSeconds !== undefined && after?.usageCoreNanoSeconds !== undefined);
    assert.ok(after.usageCoreNanoSeconds.value > before.usageCoreNanoSeconds.value);
    assert.ok(after.timestamp > before.timestamp);
  });

  await t.test('memory that is held is in the working set', async () => {
    const { memory } = await statsOf(fixture, holder);
    const held = Number(memory?.workingSetBytes?.value);
    assert.ok(held >= 32 * MIB && held < 48 * MIB, String(held));
    assert.ok((memory?.usageBytes?.value ?? 0n) >= (memory?.workingSetBytes?.value ?? 0n));
    assert.equal(memory?.availableBytes, undefined, 'without a limit nothing is said to be left');
  });

  await t.test('what was written is in the writable layer', async () => {
    const { writableLayer } = await statsOf(fixture, writer);
    const bytes = Number(writableLayer?.usedBytes?.value);
    assert.ok(bytes >= 8 * MIB && bytes < 9 * MIB, String(bytes));
    // The layer's root, the file, the folder; what the runtime makes at a start may be there, too.
    assert.ok(Number(writableLayer?.inodesUsed?.value) >= 3);
    assert.equal(writableLayer?.fsId?.mountpoint, fixture.root.data);
    const more = await fixture.exec(writer, 'sh', '-c', `head -c ${String(4 * MIB)} /dev/zero > /more`);
    assert.equal(more.exitCode, 0, more.stderr);
    writtenMoreAtMs = performance.now();
  });

  await t.test('of one that has ended: what it left, and no processor time', async () => {
    const stats = await statsOf(fixture, ended);
    assert.equal(stats.attributes?.metadata?.name, 'ended');
    assert.equal(stats.cpu, undefined);
    assert.equal(stats.memory, undefined);
    assert.ok(Number(stats.writableLayer?.usedBytes?.value) > 0);
  });

  await t.test('the list has all, and what the filter names', async () => {
    const names = (stats: readonly ContainerStats[]): string[] =>
      stats.map(({ attributes }) => attributes?.metadata?.name ?? '').sort();
    assert.deepEqual(names(await listed(fixture)), ['busy', 'ended', 'holder', 'idle', 'writer']);
    assert.deepEqual(names(await listed(fixture, { id: busy.slice(0, 12) })), ['busy']);
    assert.deepEqual(names(await listed(fixture, { podSandboxId: sandboxId, labelSelector: { container: 'idle' } })), [
      'idle',
    ]);
    assert.deepEqual(names(await listed(fixture, { podSandboxId: 'f'.repeat(64) })), []);
    assert.deepEqual(names(await listed(fixture, { labelSelector: { container: 'nobody' } })), []);
  });

  await t.test('a limit tells what is left of it', async () => {
    const limit = BigInt(64 * MIB);
    const limited = await fixture.runContainer(
      sandboxId,
      config,
      container('limited', ['sleep', '1000'], { linux: { resources: { memoryLimitInBytes: limit } } }),
    );
    const { memory } = await statsOf(fixture, limited);
    assert.equal((memory?.availableBytes?.value ?? 0n) + (memory?.workingSetBytes?.value ?? 0n), limit);
  });

  await t.test('one that is frozen is told of like the others, and holds none of them up', async () => {
    const cgroups = new Cgroups({ clock: systemClock, host: await detectCgroups() });
    const frozen = `${fixture.root.cgroupParent}/pod${sandboxId}/${busy}`;
    await cgroups.freeze(frozen);
    try {
      const beginMs = performance.now();
      const stats = await listed(fixture);
      assert.ok(performance.now() - beginMs < 1_500);
      const running = stats.filter(({ cpu }) => cpu !== undefined).map(({ attributes }) => attributes?.metadata?.name);
      assert.deepEqual(running.sort(), ['busy', 'holder', 'idle', 'limited', 'writer']);
    } finally {
      await cgroups.thaw(frozen);
    }
  });

  await t.test('what was written since is told when the last look is old', async () => {
    const told = async (): Promise<number> =>
      Number((await statsOf(fixture, writer)).writableLayer?.usedBytes?.value ?? 0n);
    // A walk takes its time on a busy machine.
    const endMs = writtenMoreAtMs + FRESH_MS + 20_000;
    while ((await told()) < 12 * MIB && performance.now() < endMs) await systemClock.sleep(200);
    const bytes = await told();
    assert.ok(bytes >= 12 * MIB && bytes < 13 * MIB, String(bytes));
  });

  await t.test('an unknown one is not found', async () => {
    await assert.rejects(fixture.cri.containerStats(op, { containerId: 'nobody' }), { kind: 'NotFound' });
  });

  await fixture.endPod(sandboxId);
  await leaks.assertNone();
});
