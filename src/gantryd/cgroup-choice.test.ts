import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isKind } from '../lib/errors.ts';
import { checkCgroupParent, decideDriver, type CgroupDriverChoice, type DriverFacts } from './cgroup-choice.ts';

test('which driver it is', () => {
  const cases: [facts: DriverFacts, driver: string, parent: string][] = [
    [{ choice: 'cgroupfs', cgroupParent: '/gantry' }, 'cgroupfs', '/gantry'],
    [{ choice: 'cgroupfs', cgroupParent: '/gantry', before: 'systemd' }, 'cgroupfs', '/gantry'],
    [{ choice: 'systemd', cgroupParent: '/gantry', before: 'cgroupfs' }, 'systemd', '/gantry.slice'],
    [{ choice: 'systemd', cgroupParent: '/gantry-x1' }, 'systemd', '/gantry_x1.slice'],
    [{ choice: 'systemd', cgroupParent: 'a-b.slice' }, 'systemd', '/a.slice/a-b.slice'],
    [{ choice: 'systemd', cgroupParent: '/a.slice/a-b.slice' }, 'systemd', '/a.slice/a-b.slice'],
    [{ choice: 'auto', cgroupParent: '/gantry', before: 'cgroupfs' }, 'cgroupfs', '/gantry'],
    [{ choice: 'auto', cgroupParent: '/gantry', before: 'systemd' }, 'systemd', '/gantry.slice'],
    [{ choice: 'auto', cgroupParent: '/gantry' }, 'cgroupfs', '/gantry'],
    [{ choice: 'auto', cgroupParent: 'g.slice', before: 'cgroupfs' }, 'systemd', '/g.slice'],
  ];
  for (const [facts, driver, parent] of cases) assert.deepEqual(decideDriver(facts), { driver, parent });
});

test('parents that are refused, by their flag', () => {
  const cases: [parent: string, choice: CgroupDriverChoice][] = [
    ['/', 'auto'],
    ['/a/../..', 'auto'],
    ['/gantry.slice', 'cgroupfs'],
    ['gantry.slice', 'cgroupfs'],
    ['/gantry.scope', 'systemd'],
    ['/elsewhere/a-b.slice', 'systemd'],
    ['a--b.slice', 'systemd'],
  ];
  for (const [parent, choice] of cases) {
    assert.throws(
      () => checkCgroupParent(parent, choice),
      (error) => isKind(error, 'InvalidArgument'),
      parent,
    );
  }
  for (const [parent, choice] of [
    ['/gantry', 'cgroupfs'],
    ['/gantry', 'systemd'],
    ['a-b.slice', 'auto'],
    ['/a.slice/a-b.slice', 'systemd'],
  ] as const) {
    checkCgroupParent(parent, choice);
  }
});
