import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { ContainerState, NamespaceMode, PodSandboxState } from '../../../src/cri/gen/api.ts';
import { isKind } from '../../../src/lib/errors.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { container, op, pod, RuntimeFixture } from './runtime-fixture.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
let f: RuntimeFixture;
let leaks: LeakCheck;

before(async () => {
  if (skip !== false) return;
  f = await RuntimeFixture.make();
  // The first pod brings along what stays for all later ones.
  await f.endPod(await f.runSandbox(pod(f.root, 'first', { network: NamespaceMode.POD })));
  leaks = await LeakCheck.begin(f.root.leakRoots());
});

after(async () => {
  if (skip !== false) return;
  await f[Symbol.asyncDispose]();
});

/** Puts another text in place of what a record says, while no daemon runs. */
function damage(
  table: 'containers' | 'sandboxes',
  column: 'status' | 'facts' | 'config',
  id: string,
  text: string,
): void {
  using db = new DatabaseSync(join(f.root.data, 'runtime.db'));
  const { changes } = db.prepare(`UPDATE ${table} SET ${column} = ? WHERE id = ?`).run(text, id);
  assert.equal(changes, 1);
}

const isNotFound = (error: unknown): boolean => isKind(error, 'NotFound');

test('a damaged record ends what it named, is named itself, and stops nobody else', { skip }, async () => {
  const config = pod(f.root, 'kept', { network: NamespaceMode.POD });
  const sandboxId = await f.runSandbox(config);
  const run = (name: string): Promise<string> =>
    f.runContainer(sandboxId, config, container(name, ['sleep', '100000']));
  const kept = await run('kept');
  const texts = ['', '{"state":{"kind":', '\0\0\0\0', '7', '{"state":{"kind":"odd"}}', 'null'];
  const broken = await Promise.all(texts.map((_, index) => run(`broken-${String(index)}`)));
  const lost = pod(f.root, 'lost', { network: NamespaceMode.POD, pid: NamespaceMode.POD });
  const lostId = await f.runSandbox(lost);
  const inLost = await f.runContainer(lostId, lost, container('main', ['sleep', '100000']));
  const before = await f.status(kept);
  await f.restart(() => {
    for (const [index, id] of broken.entries()) damage('containers', 'status', id, texts[index] ?? '');
    damage('sandboxes', 'facts', lostId, '{');
    return Promise.resolve();
  });
  await f.runtime.recovered;

  assert.deepEqual(await f.status(kept), before);
  assert.equal((await f.exec(kept, 'echo', 'here')).stdout, 'here\n');
  for (const id of [...broken, lostId]) {
    const subject = id === lostId ? { sandboxId: id } : { containerId: id };
    const { entries } = await f.runtime.inspector.explain(op, { subject });
    assert.ok(
      entries.some(({ message }) => /its record cannot be read and is set aside/.test(message)),
      JSON.stringify(entries, undefined, 1),
    );
  }
  const ofPod = async (podUid: string): Promise<string[]> =>
    (await f.runtime.inspector.explain(op, { subject: { podUid } })).entries.map(
      ({ what, subject }) => `${what} ${subject.containerId ?? subject.sandboxId ?? ''}`,
    );
  const ofKept = await ofPod('uid-kept');
  for (const id of broken) assert.ok(ofKept.includes(`container.record-damaged ${id}`), ofKept.join('\n'));
  const ofLost = await ofPod('uid-lost');
  for (const line of [`sandbox.record-damaged ${lostId}`, `container.sandbox-lost ${inLost}`])
    assert.ok(ofLost.includes(line), ofLost.join('\n'));
  for (const id of broken) await assert.rejects(f.status(id), isNotFound);
  await assert.rejects(f.cri.podSandboxStatus(op, { podSandboxId: lostId, verbose: false }), isNotFound);
  // Its network is gone, so nothing of it can be of use: whoever looks sees it end when it is removed.
  await f.cri.removeContainer(op, { containerId: inLost });
  // The name is free, and there is one of it.
  const again = await run('broken-0');
  assert.equal((await f.status(again)).state, ContainerState.CONTAINER_RUNNING);
  const lostAgain = await f.runSandbox(lost);
  const { status } = await f.cri.podSandboxStatus(op, { podSandboxId: lostAgain, verbose: false });
  assert.equal(status?.state, PodSandboxState.SANDBOX_READY);
  for (const id of [sandboxId, lostAgain]) await f.endPod(id);
  await leaks.assertNone();
});
