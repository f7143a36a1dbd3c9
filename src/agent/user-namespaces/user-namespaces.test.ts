import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { HostIds } from '../../linux/host-ids.ts';
import { PodPaths } from '../pods/paths.ts';
import { removePodDirectory } from '../volumes/pod-directory.ts';
import { UserNamespaces } from './user-namespaces.ts';

const TWO = [{ first: 655_360, count: 131_072 }];
const HOST: HostIds = { granted: { uids: TWO, gids: TWO }, taken: [] };

async function world(t: TestContext): Promise<{ paths: PodPaths; make: () => UserNamespaces }> {
  const directory = await mkdtemp(join(os.tmpdir(), 'gantry-userns-'));
  t.after(() => rm(directory, { recursive: true }));
  const paths = new PodPaths(directory, directory);
  for (const uid of ['a', 'b', 'c']) await mkdir(paths.pod(uid));
  return { paths, make: () => new UserNamespaces({ paths, hostIds: () => Promise.resolve(HOST) }) };
}

await test('two pods never share ids, also when they ask at once; a third one is told', async (t) => {
  const { make } = await world(t);
  const namespaces = make();
  const [a, b] = await Promise.all([namespaces.of('a'), namespaces.of('b')]);
  assert.deepEqual([a.hostId, b.hostId].sort(), [655_360, 720_896]);
  assert.deepEqual({ ...a, hostId: 0 }, { containerId: 0, hostId: 0, length: 65_536 });
  await assert.rejects(namespaces.of('c'), /is taken/);
  assert.deepEqual(await namespaces.of('a'), a);
});

await test('a new agent finds what was given, and a pod that is gone gives it back', async (t) => {
  const { paths, make } = await world(t);
  const first = make();
  const [a, b] = [await first.of('a'), await first.of('b')];
  const second = make();
  assert.deepEqual([await second.of('b'), await second.of('a')], [b, a]);
  await second.release('a');
  assert.deepEqual((await second.of('c')).hostId, a.hostId);
  await second.release('nobody');
  const third = make();
  assert.deepEqual((await third.of('c')).hostId, a.hostId);
  await assert.rejects(third.of('a'), /is taken/);
  assert.equal(await removePodDirectory(paths, 'c'), true, 'what is written down is the agent’s own file');
  await third.release('c');
  await mkdir(paths.pod('c'));
  assert.deepEqual((await third.of('c')).hostId, a.hostId);
});

await test('it is written as kubelet writes it; what is torn counts for nothing', async (t) => {
  const { paths, make } = await world(t);
  const { hostId } = await make().of('a');
  const mappings = [{ containerId: 0, hostId, length: 65_536 }];
  const text = await readFile(join(paths.pod('a'), 'userns'), 'utf8');
  assert.deepEqual(JSON.parse(text), { uidMappings: mappings, gidMappings: mappings });
  await writeFile(join(paths.pod('b'), 'userns'), text.slice(0, 20));
  await writeFile(join(paths.pod('c'), 'userns'), '{}');
  const again = make();
  assert.equal((await again.of('a')).hostId, hostId);
  assert.notEqual((await again.of('b')).hostId, hostId);
});

await test('what cannot be written down is not given', async (t) => {
  const { paths, make } = await world(t);
  await rm(paths.pod('a'), { recursive: true });
  const namespaces = make();
  await assert.rejects(namespaces.of('a'), /ENOENT/);
  await namespaces.of('b');
  await namespaces.of('c');
});
