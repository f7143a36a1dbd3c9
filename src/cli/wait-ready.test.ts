import assert from 'node:assert/strict';
import { test } from 'node:test';
import { examplePod } from '../kube/api/fake-api.ts';
import type { Pod } from '../kube/objects.ts';
import { openFakeCli, type FakeCli } from './fake-cli.ts';

async function waitFor(cli: FakeCli): Promise<string> {
  const running = cli.run(['apply', '-f', '-', '--wait', '--timeout', '5s'], JSON.stringify(examplePod('web')));
  await cli.api.clock.advance(6_000);
  const { code, err } = await running;
  assert.equal(code, 1);
  return err;
}

async function warn(cli: FakeCli, pod: Pod, reason: string, message: string, atMs: number, type = 'Warning') {
  const at = new Date(cli.api.clock.wallMs() + atMs).toISOString().replace(/\.\d+Z$/, 'Z');
  await cli.api.kube.create(cli.api.op, 'events', {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: `${pod.metadata.name}.${reason.toLowerCase()}`, namespace: 'default' },
    involvedObject: { kind: 'Pod', namespace: 'default', name: pod.metadata.name, uid: pod.metadata.uid },
    ...{ reason, message, type, firstTimestamp: at, lastTimestamp: at, source: {}, count: 1 },
  });
}

test('a wait that is over says the newest warning of what holds the pod back, in one line', async () => {
  const cli = await openFakeCli();
  const older = await cli.api.kube.create(cli.api.op, 'pods', examplePod('web', { nodeName: 'other' }));
  await warn(cli, older, 'OfAnEarlierOne', 'not this', 9_000);
  await cli.api.kube.delete(cli.api.op, 'pods', { namespace: 'default', name: 'web' });
  const pod = await cli.api.kube.create(cli.api.op, 'pods', examplePod('web'));
  const containerStatuses = [
    {
      ...{ name: 'main', ready: false, restartCount: 0, image: 'busybox:1', imageID: '' },
      state: { waiting: { reason: 'ContainerCreating' } },
    },
  ];
  await cli.api.kube.replaceStatus(cli.api.op, 'pods', { ...pod, status: { phase: 'Pending', containerStatuses } });
  assert.equal(await waitFor(cli), 'error: pod/web not ready within 5 s: ContainerCreating\n');
  await warn(cli, pod, 'FailedMount', 'an older trouble', -5_000);
  await warn(cli, pod, 'FailedCreatePodSandBox', 'port 8080 is taken\nby another', 0);
  await warn(cli, pod, 'Scheduled', 'all is well', 2_000, 'Normal');
  assert.equal(
    await waitFor(cli),
    'error: pod/web not ready within 5 s: ContainerCreating (FailedCreatePodSandBox: port 8080 is taken\\nby another)\n',
  );
});

test('what the container itself says comes first; without any event a condition is asked', async () => {
  const cli = await openFakeCli();
  const pod = await cli.api.kube.create(cli.api.op, 'pods', examplePod('web'));
  const at = '2026-01-01T00:00:00Z';
  const conditions = [
    {
      type: 'Ready',
      status: 'False',
      lastTransitionTime: at,
      reason: 'ContainersNotReady',
      message: 'not ready: [main]',
    },
  ];
  await cli.api.kube.replaceStatus(cli.api.op, 'pods', { ...pod, status: { phase: 'Pending', conditions } });
  assert.equal(await waitFor(cli), 'error: pod/web not ready within 5 s: Pending (Ready: not ready: [main])\n');
});
