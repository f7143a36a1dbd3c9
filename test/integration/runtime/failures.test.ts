import assert from 'node:assert/strict';
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ContainerState, NamespaceMode, type PodSandboxConfig } from '../../../src/cri/gen/api.ts';
import { isKind } from '../../../src/lib/errors.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { eventually } from './daemon-process.ts';
import { container, op, pod, RuntimeFixture } from './runtime-fixture.ts';

const root = process.getuid?.() !== 0 && 'needs root';
let f: RuntimeFixture;
let leaks: LeakCheck;

/** A CNI plug-in that does what a file says: `ok`, `fail`, `lie` (an error, and exit code 0), `babble`, or any number of seconds. */
const PLUGIN = `#!/bin/sh
dir=$(dirname "$0")
echo "$CNI_COMMAND $CNI_CONTAINERID" >> "$dir/calls"
mode=$(cat "$dir/$CNI_COMMAND" 2>/dev/null || echo ok)
case $mode in
  ok) ;;
  lie) echo '{"cniVersion":"1.0.0","code":11,"msg":"told to lie"}'; exit 0 ;;
  babble) echo 'no word of this is JSON'; exit 0 ;;
  fail) echo '{"cniVersion":"1.0.0","code":11,"msg":"told to fail"}'; exit 1 ;;
  *) exec sleep "$mode" ;;
esac
if [ "$CNI_COMMAND" = ADD ]; then
  echo '{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"x"}],"ips":[{"address":"192.0.2.7/24","interface":0}]}'
fi
`;

before(async () => {
  if (root !== false) return;
  const made = await RuntimeFixture.make((places) => ({ cniBinDirs: [join(places.dir, 'plugins')] }));
  f = made;
  const plugins = join(f.root.dir, 'plugins');
  await mkdir(plugins);
  await writeFile(join(plugins, 'odd'), PLUGIN);
  await chmod(join(plugins, 'odd'), 0o755);
  await writeFile(
    join(f.root.cniConfDir, '10-odd.conflist'),
    JSON.stringify({ cniVersion: '1.0.0', name: 'odd', plugins: [{ type: 'odd' }] }),
  );
  leaks = await LeakCheck.begin(f.root.leakRoots());
});

after(async () => {
  if (root !== false) return;
  await f[Symbol.asyncDispose]();
});

const tell = (command: string, mode: string): Promise<void> => writeFile(join(f.root.dir, 'plugins', command), mode);
const podNet = (name: string): PodSandboxConfig => pod(f.root, name, { network: NamespaceMode.POD });

async function calls(): Promise<string[]> {
  const text = await readFile(join(f.root.dir, 'plugins', 'calls'), 'utf8').catch(() => '');
  return text.split('\n').map((line) => line.split(' ')[0] ?? '');
}

test(
  'a network that cannot be set up: everything is undone, DEL is called, the name is free',
  { skip: root },
  async () => {
    await tell('ADD', 'fail');
    await assert.rejects(f.runSandbox(podNet('net')), /told to fail/);
    assert.ok((await calls()).includes('DEL'));
    assert.deepEqual((await f.cri.listPodSandbox(op, { filter: undefined })).items, []);
    await leaks.assertNone();
    await tell('ADD', 'ok');
    const id = await f.runSandbox(podNet('net'));
    const { status } = await f.cri.podSandboxStatus(op, { podSandboxId: id, verbose: false });
    assert.equal(status?.network?.ip, '192.0.2.7');
    await f.endPod(id);
    await leaks.assertNone();
  },
);

test(
  'a caller that leaves, and comes back with the same request, gets what was made meanwhile',
  { skip: root },
  async () => {
    await tell('ADD', '1');
    const config = podNet('impatient');
    const caller = new AbortController();
    const first = f.cri.runPodSandbox({ ...op, signal: caller.signal }, { config, runtimeHandler: '' });
    const other = { ...config, hostname: 'another' };
    setImmediate(() => caller.abort(new Error('gone')));
    await assert.rejects(first);
    await assert.rejects(f.runSandbox(other), (error) => isKind(error, 'AlreadyExists'));
    // The plug-in slept instead of answering: that run fails for all who wait for it, and is undone.
    await assert.rejects(f.runSandbox(config));
    await tell('ADD', 'ok');
    const [a, b] = await Promise.all([f.runSandbox(config), f.runSandbox(config)]);
    assert.equal(a, b, 'two at once are one');
    await assert.rejects(f.runSandbox(config), (error) => isKind(error, 'AlreadyExists'));
    await f.endPod(a);
    await leaks.assertNone();
  },
);

test(
  'DEL that fails is tried again and holds up nothing but itself, and that not for ever',
  { skip: root },
  async () => {
    const config = podNet('sticky');
    const id = await f.runSandbox(config);
    const containerId = await f.runContainer(id, config, container('main', ['sleep', '600']));
    await tell('DEL', 'fail');
    await assert.rejects(f.cri.stopPodSandbox(op, { podSandboxId: id }), /told to fail/);
    assert.equal((await f.status(containerId)).state, ContainerState.CONTAINER_EXITED);
    const pending = await f.runtime.inspector.pendingWork(op, { podName: 'sticky' });
    assert.match(pending[0]?.message ?? '', /cni/);
    assert.match(pending[0]?.lastError ?? '', /told to fail/);
    await eventually(
      () =>
        f.cri.removePodSandbox(op, { podSandboxId: id }).then(
          () => true,
          () => false,
        ),
      (gone) => gone,
      'a removal without the network',
    );
    assert.ok((await readdir(f.root.netnsDir)).length === 0);
    const { entries } = await f.runtime.inspector.explain(op, { subject: { podName: 'sticky' } });
    assert.ok(entries.some(({ what }) => what === 'sandbox.network-deferred'));
    const [deferred] = await f.runtime.inspector.pendingWork(op, { podName: 'sticky' });
    assert.match(deferred?.message ?? '', /still held: cni/, 'pending under the name of its pod');
    assert.match(deferred?.lastError ?? '', /told to fail/);
    // By hand it does not succeed either, and is not promised to.
    for (const fix of [false, true, false]) {
      const { findings } = await f.runtime.inspector.doctor(op, { fix });
      const ours = findings.filter(({ problem }) => problem !== 'foreign');
      assert.deepEqual(
        ours.map(({ problem, kind, outcome }) => [problem, kind, outcome]),
        [['blocked', 'ledger', fix ? 'failed' : undefined]],
        JSON.stringify(ours),
      );
      assert.match(ours[0]?.message ?? '', /is tried again by itself: .*told to fail/);
    }
    const before = (await calls()).length;
    await tell('DEL', 'ok');
    await eventually(
      () => f.runtime.inspector.pendingWork(op),
      (items) => items.length === 0,
      'the deferred DEL',
    );
    assert.ok((await calls()).length > before);
    const { entries: story } = await f.runtime.inspector.explain(op, { subject: { podName: 'sticky' } });
    assert.ok(story.some(({ message }) => message === 'pod network disconnected after all'));
    await leaks.assertNone();
  },
);

test(
  'DEL that exits with 0 and says an error is a failure; one that says nothing sensible has succeeded',
  { skip: root },
  async () => {
    const lied = podNet('lied');
    const liedId = await f.runSandbox(lied);
    const containerId = await f.runContainer(liedId, lied, container('main', ['sleep', '600']));
    await tell('DEL', 'lie');
    await assert.rejects(f.cri.stopPodSandbox(op, { podSandboxId: liedId }), /told to lie/);
    assert.equal((await f.status(containerId)).state, ContainerState.CONTAINER_EXITED);
    const [pending] = await f.runtime.inspector.pendingWork(op, { podName: 'lied' });
    assert.match(pending?.message ?? '', /cni/);
    assert.match(pending?.lastError ?? '', /told to lie/);
    await tell('DEL', 'babble');
    await f.endPod(liedId);
    await f.endPod(await f.runSandbox(podNet('babbled')));
    await tell('DEL', 'ok');
    assert.deepEqual(await f.runtime.inspector.pendingWork(op), []);
    await leaks.assertNone();
  },
);

test(
  'without a network configuration only pods of the host network run, and Status says so',
  { skip: root },
  async () => {
    const file = join(f.root.cniConfDir, '10-odd.conflist');
    const text = await readFile(file, 'utf8');
    await writeFile(file, 'not a configuration');
    const { status } = await f.cri.status(op, { verbose: false });
    const network = status?.conditions.find(({ type }) => type === 'NetworkReady');
    assert.equal(network?.status, false);
    await assert.rejects(f.runSandbox(podNet('none')), (error) => isKind(error, 'Unavailable'));
    await f.endPod(await f.runSandbox(pod(f.root, 'host')));
    await writeFile(file, text);
    await leaks.assertNone();
  },
);
