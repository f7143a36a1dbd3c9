import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NO_FAULTS } from '../../lib/fault-points.ts';
import type { CgroupTree } from '../parts.ts';
import { changeLimits, endLimitsChange } from './change-limits.ts';
import type { LimitChange, LimitsIntent } from './limits-intent.ts';

const memory = (before: string, value: string): LimitChange => ({
  path: '/c',
  controller: 'memory',
  file: 'memory.max',
  before,
  value,
});

/** A group and a record; `done` is what became of both, in order. */
function room(failing?: 'apply' | 'settle') {
  const done: string[] = [];
  const note = (what: string): Promise<void> => Promise.resolve(void done.push(what));
  const changes = [memory('max', '100')];
  const cgroups = {
    planLimits: (_path: string, wanted: { memoryLimitBytes?: number }) =>
      Promise.resolve(wanted.memoryLimitBytes === undefined ? [] : changes),
    applyLimits: () => (failing === 'apply' ? Promise.reject(new Error('refused')) : note('apply')),
    takeLimitsBack: () => note('take back'),
  } as unknown as CgroupTree;
  const settle = (to?: string): Promise<void> =>
    failing === 'settle' && to !== undefined ? Promise.reject(new Error('disk')) : note(`settle ${to ?? 'nothing'}`);
  const subject = {
    cgroupPath: '/c',
    known: {},
    wanted: { memoryLimitBytes: 100 },
    to: 'new',
    intend: ({ to }: LimitsIntent<string>) => note(`intend ${to}`),
    settle,
  };
  return { deps: { cgroups, faults: NO_FAULTS }, subject, done };
}

test('the record has the way back before, and says so after', async () => {
  const { deps, subject, done } = room();
  await changeLimits(deps, subject);
  assert.deepEqual(done, ['intend new', 'apply', 'settle new']);
});

test('nothing to write: only the record changes', async () => {
  const { deps, subject, done } = room();
  await changeLimits(deps, { ...subject, wanted: {} });
  assert.deepEqual(done, ['settle new']);
});

for (const failing of ['apply', 'settle'] as const) {
  test(`both stay as they were when the ${failing === 'apply' ? 'cgroup' : 'record'} takes no change`, async () => {
    const { deps, subject, done } = room(failing);
    await assert.rejects(changeLimits(deps, subject), /refused|disk/);
    assert.deepEqual(done.slice(-2), ['take back', 'settle nothing']);
  });
}

test('cut short: finished where memory was given, taken back otherwise', async () => {
  const cases: [LimitChange[], string[]][] = [
    [[memory('100', '200')], ['apply', 'settle new']],
    [[memory('100', 'max')], ['apply', 'settle new']],
    [[memory('200', '100')], ['take back', 'settle nothing']],
    [[memory('max', '100')], ['take back', 'settle nothing']],
    [[{ ...memory('1', '2'), file: 'cpu.weight' }], ['take back', 'settle nothing']],
    [[{ ...memory('-1', '5'), file: 'memory.limit_in_bytes' }], ['take back', 'settle nothing']],
  ];
  for (const [changes, wanted] of cases) {
    const { deps, subject, done } = room();
    await endLimitsChange(deps, { to: 'new', changes }, subject.settle);
    assert.deepEqual(done, wanted, JSON.stringify(changes));
  }
});

test('what cannot be finished is taken back and forgotten', async () => {
  const { deps, subject, done } = room('apply');
  await endLimitsChange(deps, { to: 'new', changes: [memory('100', '200')] }, subject.settle);
  assert.deepEqual(done, ['take back', 'settle nothing']);
});
