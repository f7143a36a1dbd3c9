import assert from 'node:assert/strict';
import { chmod, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ProbeMemory } from './probe-memory.ts';
import type { WorkingRuntime } from './probe.ts';
import { NO_FEATURES } from './runtime-features.ts';

let folder: string;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'gantry-probe-memory-'));
});
after(async () => {
  await rm(folder, { recursive: true });
});

async function program(name: string): Promise<{ name: string; program: string; outcome: WorkingRuntime }> {
  const path = join(folder, name);
  await writeFile(path, '#!/bin/sh\n', { mode: 0o755 });
  const runtime = { name: 'runc', path, root: '/state/oci-runc' };
  return { name: 'runc', program: path, outcome: { runtime, version: 'runc 1', features: NO_FEATURES } };
}

test('what was noted is recalled by another process, within its boot and version', async () => {
  const path = join(folder, 'noted.json');
  const { outcome, ...candidate } = await program('same');
  await (await ProbeMemory.open(path, 'boot 1')).note(candidate, outcome);
  assert.deepEqual(await (await ProbeMemory.open(path, 'boot 1')).recall(candidate), outcome);
  assert.equal(await (await ProbeMemory.open(path, 'boot 2')).recall(candidate), undefined);
  const other = { ...candidate, program: '/bin/sh' };
  assert.equal(await (await ProbeMemory.open(path, 'boot 1')).recall(other), undefined);
});

test('what a process that was killed was writing goes with the next one', async () => {
  const path = join(folder, 'killed.json');
  await writeFile(`${path}.0123456789ab.tmp`, '{');
  await ProbeMemory.open(path, 'boot');
  assert.deepEqual(
    (await readdir(folder)).filter((name) => name.startsWith('killed')),
    [],
  );
});

test('another file in the place of the program is another program', async () => {
  const memory = await ProbeMemory.open(join(folder, 'changed.json'), 'boot');
  const { outcome, ...candidate } = await program('changed');
  await memory.note(candidate, outcome);
  assert.deepEqual(await memory.recall(candidate), outcome);
  await chmod(candidate.program, 0o644);
  assert.equal(await memory.recall(candidate), undefined);
  await rm(candidate.program);
  assert.equal(await memory.recall(candidate), undefined);
});

test('one that is not installed is looked for each time, and a damaged note is none', async () => {
  const path = join(folder, 'damaged.json');
  const memory = await ProbeMemory.open(path, 'boot');
  const missing = { name: 'none', program: join(folder, 'none') };
  await memory.note(missing, { name: 'none', reason: 'not installed' });
  assert.equal(await memory.recall(missing), undefined);
  for (const text of ['', 'null', '{"stamp":"boot"}', '[']) {
    await writeFile(path, text);
    assert.equal(await (await ProbeMemory.open(path, 'boot')).recall(missing), undefined);
  }
});
