import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { ALL_CASES, ALL_STEPS } from '../../faults/cases.ts';
import { judge, livesOf, plansOf } from '../../faults/lives.ts';
import { ALL_POINTS, PlannedFaults } from '../../faults/planned-faults.ts';

const source = new URL('../../../src/', import.meta.url).pathname;
const DOCUMENT = new URL('../../../docs/faults.md', import.meta.url).pathname;

async function sourceText(): Promise<string> {
  const names = await readdir(source, { recursive: true });
  const files = names.filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'));
  return (await Promise.all(files.map((name) => readFile(join(source, name), 'utf8')))).join('\n');
}

/** The points that the sources come to; those of a release are named by the kinds that have a releaser. */
function pointsIn(text: string): string[] {
  const named = [...text.matchAll(/\.(?:reach|pass)\(\s*'([^']+)'/g)].map(([, point = '']) => point);
  const kinds = ALL_POINTS.flatMap((point) => /^release\/(.+)-begun$/.exec(point)?.[1] ?? []);
  const released = kinds.filter((kind) => new RegExp(`\\n {4,6}'?${kind}'?: (async )?\\(`).test(text));
  const moments = [...text.matchAll(/`release\/\$\{kind\}-(\w+)`/g)].map(([, moment = '']) => moment);
  return [...named, ...released.flatMap((kind) => moments.map((moment) => `release/${kind}-${moment}`))];
}

test('the sources come to every point that has a name, and each is killed at, alone and with its recoveries', async () => {
  const inSources = [...new Set(pointsIn(await sourceText()))].sort();
  assert.deepEqual(inSources, [...ALL_POINTS].sort());
  for (const variant of ['once', 'again'] as const) {
    const killedAt = ALL_CASES.filter((one) => one.variant === variant).map(({ point }) => point);
    assert.deepEqual([...new Set(killedAt)].sort(), [...ALL_POINTS].sort());
  }
});

test('the table that is kept has every step, with both outcomes, and none has failed', async () => {
  const rows = (await readFile(DOCUMENT, 'utf8')).split('\n').flatMap((line) => {
    const [, step = '', once = '', again = ''] = line.split('|').map((cell) => cell.trim());
    return /^[a-z-]+\/[a-z-]+(:\d)?$/.test(step) ? [{ step, once, again }] : [];
  });
  assert.deepEqual(
    rows.map(({ step }) => step),
    ALL_STEPS,
  );
  for (const { step, once, again } of rows) {
    assert.match(once, /^right, nothing left/, step);
    assert.match(again, /^right, nothing left/, step);
  }
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

test('cases of different stages share a life, in its order; each case is in one', () => {
  const lives = livesOf(ALL_CASES);
  assert.deepEqual(lives.flatMap(({ cases }) => cases).length, ALL_CASES.length);
  assert.equal(new Set(lives.flatMap(({ cases }) => cases)).size, ALL_CASES.length);
  for (const { cases } of lives) {
    const stages = cases.map(({ stage }) => stage ?? 0);
    assert.deepEqual(
      stages,
      [...new Set(stages)].sort((a, b) => a - b),
    );
    if (cases.length > 1) assert.ok(cases.every(({ variant, life }) => variant === 'once' && life === 'pod'));
  }
  const first = lives[0];
  assert.ok(first !== undefined);
  assert.ok(first.cases.length > 5);
  for (const plan of plansOf(first)) new PlannedFaults(plan);
});

test('a life is judged by where the daemons died', () => {
  const some = (...steps: string[]) => ({
    cases: steps
      .map((step) => ALL_CASES.find((one) => one.step === step && one.variant === 'once'))
      .filter((one) => one !== undefined),
  });
  const lived = (...killedAt: string[]) => ({ killedAt, seconds: 1 });
  const two = some('run-sandbox/ready', 'exit/seen');
  assert.deepEqual(judge(two, lived('run-sandbox/ready', 'exit/seen')), { reached: 2 });
  // Led past by the first: nothing is said of it.
  assert.deepEqual(judge(two, lived('run-sandbox/ready')), { reached: 1 });
  assert.deepEqual(judge(two, { ...lived('run-sandbox/ready'), failure: 'odd' }), { reached: 1, failure: 'odd' });
  assert.match(judge(some('exit/seen'), lived()).failure ?? '', /not reached/);
  const later = some('recovery/resumed');
  assert.match(judge(later, lived('start-container/exit-awaited')).failure ?? '', /not reached/);
  assert.deepEqual(judge(later, lived('start-container/exit-awaited', 'recovery/resumed')), { reached: 1 });
});
