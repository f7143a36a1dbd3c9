import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ListContainersRequest, StreamContainersRequest } from '../../../src/cri/gen/api.ts';
import { connectCri } from '../../../src/cri/client.ts';
import { serveCri } from '../../../src/cri/server.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { container, op, pod, RuntimeFixture } from '../runtime/runtime-fixture.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const CONTAINERS = 12;
const NO_FILTER = { filter: undefined };

test('the streams of lists over a socket', { skip }, async (t) => {
  await using fixture = await RuntimeFixture.make();
  const leaks = await LeakCheck.begin(fixture.root.leakRoots());
  const config = pod(fixture.root, 'streamed');
  const sandboxId = await fixture.runSandbox(config);
  // Together more than one message of a stream carries.
  const annotations = { note: 'x'.repeat(250_000) };
  for (let index = 0; index < CONTAINERS; index++) {
    const command = container(`c${String(index)}`, ['sleep', '1000'], { annotations });
    const id = await fixture.createContainer(sandboxId, config, command);
    if (index === 0) await fixture.cri.startContainer(op, { containerId: id });
  }
  const served = await serveCri({
    listen: fixture.root.criSocket,
    runtime: fixture.cri,
    image: fixture.runtime.image,
    log: op.log,
  });
  const connection = connectCri(fixture.root.criSocket);
  const { runtime, image } = connection;

  await t.test('containers: those of the list, each once, in several messages', async () => {
    const { containers } = await runtime.listContainers(op, NO_FILTER);
    const parts = await Array.fromAsync(runtime.streamContainers(op, NO_FILTER));
    assert.ok(parts.length > 1, String(parts.length));
    assert.equal(containers.length, CONTAINERS);
    assert.deepEqual(
      parts.flatMap((part) => part.containers),
      containers,
    );
  });

  await t.test('with the filter of the list', async () => {
    const filter = { labelSelector: { container: 'c3' } };
    const { containers } = await runtime.listContainers(op, ListContainersRequest.fromPartial({ filter }));
    const request = StreamContainersRequest.fromPartial({ filter });
    const parts = await Array.fromAsync(runtime.streamContainers(op, request));
    assert.equal(containers.length, 1);
    assert.deepEqual(parts, [{ containers }]);
  });

  await t.test('sandboxes and images', async () => {
    const { items } = await runtime.listPodSandbox(op, NO_FILTER);
    assert.deepEqual(await Array.fromAsync(runtime.streamPodSandboxes(op, NO_FILTER)), [{ podSandboxes: items }]);
    const { images } = await image.listImages(op, NO_FILTER);
    assert.deepEqual(await Array.fromAsync(image.streamImages(op, NO_FILTER)), [{ images }]);
  });

  await t.test('usage and metrics', async () => {
    const listed = (await runtime.listContainerStats(op, NO_FILTER)).stats.map(({ attributes }) => attributes?.id);
    const parts = await Array.fromAsync(runtime.streamContainerStats(op, NO_FILTER));
    const streamed = parts.flatMap(({ containerStats }) => containerStats);
    assert.deepEqual(
      streamed.map(({ attributes }) => attributes?.id),
      listed,
    );
    assert.equal(streamed.filter(({ cpu }) => cpu !== undefined).length, 1, 'one of them runs');
    const pods = await Array.fromAsync(runtime.streamPodSandboxStats(op, NO_FILTER));
    assert.deepEqual(
      pods.flatMap(({ podSandboxStats }) => podSandboxStats.map(({ attributes }) => attributes?.id)),
      [sandboxId],
    );
    const metrics = await Array.fromAsync(runtime.streamPodSandboxMetrics(op, {}));
    assert.deepEqual(
      metrics.flatMap(({ podSandboxMetrics }) => podSandboxMetrics.map(({ podSandboxId }) => podSandboxId)),
      [sandboxId],
    );
  });

  connection.close();
  await served.close();
  await fixture.endPod(sandboxId);
  await leaks.assertNone();
});
