import assert from 'node:assert/strict';
import { access, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { PodPaths } from '../pods/paths.ts';
import { testPod } from '../pods/test-pod.ts';
import { makePodDirectory, removePodDirectory } from './pod-directory.ts';

let dir: string;
let paths: PodPaths;

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'gantry-pods-'));
  paths = new PodPaths(dir, dir);
});
after(async () => {
  await rm(dir, { recursive: true });
});

test('a pod directory goes with all that the agent puts there, half-written files too', async () => {
  const pod = testPod({ containers: [] });
  const directory = paths.pod(pod.uid);
  await makePodDirectory(paths, pod);
  await mkdir(join(paths.volumes(pod.uid), 'kubernetes.io~empty-dir'), { recursive: true });
  for (const name of [
    'etc-hosts',
    'termination.json',
    'termination.json.0123456789ab.tmp',
    'pod.json.0123456789ab.tmp',
  ]) {
    await writeFile(join(directory, name), '{');
  }
  assert.equal(await removePodDirectory(paths, pod.uid), true);
  await assert.rejects(access(directory));
});

test('a file that nobody knows keeps the directory, and its name', async () => {
  const pod = testPod({ containers: [] });
  await makePodDirectory(paths, pod);
  await writeFile(join(paths.pod(pod.uid), 'precious'), 'x');
  assert.equal(await removePodDirectory(paths, pod.uid), false);
  await access(join(paths.pod(pod.uid), 'precious'));
  await access(join(paths.pod(pod.uid), 'pod.json'));
});
