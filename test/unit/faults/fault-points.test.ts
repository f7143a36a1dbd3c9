import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { ALL_POINTS, PlannedFaults } from '../../faults/planned-faults.ts';

const source = new URL('../../../src/', import.meta.url).pathname;

async function runtimeText(): Promise<string> {
  const names = await readdir(join(source, 'runtime'), { recursive: true });
  const files = names.filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'));
  return (await Promise.all(files.map((name) => readFile(join(source, 'runtime', name), 'utf8')))).join('\n');
}

test('every named point is somewhere in the runtime', async () => {
  const text = await runtimeText();
  const released = (point: string): boolean =>
    /^release\/\w+-(begun|gone)$/.test(point) && text.includes(`release/\${kind}-${point.split('-')[1] ?? ''}`);
  assert.deepEqual(
    ALL_POINTS.filter((point) => !text.includes(`'${point}'`) && !released(point)),
    [],
  );
});

test('no setting of the daemon reaches them', async () => {
  const names = (await readdir(source, { recursive: true })).filter((name) => name.endsWith('.ts'));
  for (const name of names) {
    const text = await readFile(join(source, name), 'utf8');
    assert.ok(!text.includes('GANTRY_FAULT'), name);
  }
});

test('a plan happens at its time, once', async () => {
  const faults = new PlannedFaults('exit/seen:2:error,run-sandbox/begun:delay=1');
  assert.equal(faults.reach('exit/seen'), undefined);
  await assert.rejects(async () => await faults.reach('exit/seen'), /planned failure at exit\/seen/);
  assert.equal(faults.reach('exit/seen'), undefined);
  await faults.reach('run-sandbox/begun');
  assert.equal(faults.reach('run-sandbox/ready'), undefined);
  assert.throws(() => new PlannedFaults('exit/never'), /no such fault point/);
});
