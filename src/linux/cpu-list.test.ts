import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isCpuList, members, notIn } from './cpu-list.ts';

test('lists as the kernel has them', () => {
  for (const list of ['0', '0-3,5', '7,0-1']) assert.equal(isCpuList(list), true, list);
  for (const list of ['', '-1', '3-1', '0,', 'a', '0 1', '0-1-2', '0\n']) assert.equal(isCpuList(list), false, list);
  assert.deepEqual(members('0-2,5'), [0, 1, 2, 5]);
  assert.deepEqual(members(''), []);
});

test('what of a list is not in another one, however long the list claims to be', () => {
  const cases: [string, string, string][] = [
    ['0-1', '0-1', ''],
    ['99', '0-1', '99'],
    ['0-4095', '0-1', '2-4095'],
    ['0-99999999999', '0-1', '2-99999999999'],
    ['0-2', '0,2', '1'],
    ['1,4', '0,2', '1,4'],
  ];
  for (const [list, there, missing] of cases) assert.equal(notIn(list, there), missing, `${list} of ${there}`);
});
