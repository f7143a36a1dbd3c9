import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NamespaceMode, type Metric } from '../../../src/cri/gen/api.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { container, op, pod, RuntimeFixture } from '../runtime/runtime-fixture.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const LIMIT = 64 * 1024 * 1024;

/** By name and the labels beyond the first five. */
function valuesOf(metrics: readonly Metric[]): ReadonlyMap<string, bigint> {
  return new Map(
    metrics.map(({ name, labelValues, value }) => [[name, ...labelValues.slice(5)].join(' '), value?.value ?? -1n]),
  );
}

test('metrics of a real pod', { skip }, async (t) => {
  await using fixture = await RuntimeFixture.make();
  const leaks = await LeakCheck.begin(fixture.root.leakRoots());
  const config = pod(fixture.root, 'metered', { network: NamespaceMode.POD });
  const sandboxId = await fixture.runSandbox(config);
  const resources = {
    cpuPeriod: 100_000n,
    cpuQuota: 20_000n,
    cpuShares: 512n,
    memoryLimitInBytes: BigInt(LIMIT),
  };
  const script = 'sleep 1000 & exec sleep 1000 9</etc/hostname';
  const meteredId = await fixture.runContainer(
    sandboxId,
    config,
    container('metered', ['sh', '-c', script], { linux: { resources } }),
  );
  const ended = await fixture.runContainer(sandboxId, config, container('ended', ['true']));
  await fixture.waitFor(ended, ({ finishedAt }) => finishedAt !== 0n);

  const { podMetrics } = await fixture.cri.listPodSandboxMetrics(op, {});
  const { descriptors } = await fixture.cri.listMetricDescriptors(op, {});
  const own = podMetrics.find(({ podSandboxId }) => podSandboxId === sandboxId) ?? assert.fail();
  const [metered, ...others] = own.containerMetrics;
  assert.ok(metered !== undefined);

  await t.test('of the containers that run, and of these alone', () => {
    assert.equal(metered.containerId, meteredId);
    assert.deepEqual(others, []);
  });

  await t.test('each value has the labels that its description says', () => {
    const keys = new Map(descriptors.map(({ name, labelKeys }) => [name, labelKeys]));
    for (const { name, labelValues } of [...own.metrics, ...metered.metrics]) {
      assert.equal(labelValues.length, keys.get(name)?.length, name);
    }
    const labels = metered.metrics[0]?.labelValues.slice(0, 5);
    assert.deepEqual(labels, ['metered', 'default', 'metered', meteredId, 'localhost/busybox:test']);
    assert.deepEqual(own.metrics[0]?.labelValues, ['metered', 'default', '', sandboxId, '', 'eth0']);
  });

  await t.test('limits are those that were asked for', () => {
    const values = valuesOf(metered.metrics);
    assert.equal(values.get('container_spec_cpu_period'), 100_000n);
    assert.equal(values.get('container_spec_cpu_quota'), 20_000n);
    assert.equal(values.get('container_spec_memory_limit_bytes'), BigInt(LIMIT));
    // On v2 the shares go through a coarser scale.
    const shares = Number(values.get('container_spec_cpu_shares'));
    assert.ok(Math.abs(shares - 512) < 32, String(shares));
  });

  await t.test('processes, threads and what they have open', () => {
    const values = valuesOf(metered.metrics);
    assert.equal(values.get('container_processes'), 2n);
    assert.equal(values.get('container_threads'), 2n);
    // Three each, and the ninth of one.
    assert.equal(values.get('container_file_descriptors'), 7n);
    assert.equal(values.get('container_sockets'), 0n);
    assert.ok((values.get('container_ulimits_soft max_open_files') ?? 0n) > 0n);
    const age = (values.get('container_last_seen') ?? 0n) - (values.get('container_start_time_seconds') ?? 0n);
    assert.ok(age >= 0n && age < 120n, String(age));
  });

  await t.test('what is told of every container on every host', () => {
    const values = valuesOf(metered.metrics);
    const names = new Set([...values.keys()].map((name) => name.split(' ')[0]));
    const optional = /^container_(network|pressure|hugetlb|fs_(reads|writes)|blkio)_/;
    const missing = descriptors.map(({ name }) => name).filter((name) => !optional.test(name) && !names.has(name));
    assert.deepEqual(missing, []);
    assert.ok((values.get('container_memory_usage_bytes') ?? 0n) > 0n);
    assert.ok((values.get('container_memory_max_usage_bytes') ?? 0n) >= (values.get('container_memory_rss') ?? 0n));
    assert.equal(values.get('container_oom_events_total'), 0n);
  });

  await t.test('a sandbox that was stopped has none', async () => {
    await fixture.cri.stopPodSandbox(op, { podSandboxId: sandboxId });
    assert.deepEqual(await fixture.cri.listPodSandboxMetrics(op, {}), { podMetrics: [] });
  });

  await fixture.endPod(sandboxId);
  await leaks.assertNone();
});
