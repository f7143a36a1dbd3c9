import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Finding } from '../../lib/doctor.ts';
import { reportLines } from './doctor.ts';

const orphan: Finding = { problem: 'orphan', kind: 'netns', key: '/n/1', message: 'm', action: 'remove it' };
const blocked: Finding = { problem: 'blocked', kind: 'ledger', key: 'network/1', message: 'm', action: 'try it again' };
const stuck: Finding = { problem: 'blocked', kind: 'container', key: 'a', message: 'm' };
const advice: Finding = { problem: 'missing', kind: 'monitor', key: 'a', message: 'm' };

const SUMMARIES: readonly (readonly [readonly Finding[], RegExp])[] = [
  [[], /nothing of it is left over and nothing is missing\.$/],
  [[orphan], /1 problem\. 'gantry doctor --fix' takes care of it\.$/],
  [[orphan, advice], /2 problems\. 'gantry doctor --fix' takes care of 1\.$/],
  [[blocked], /1 problem\. 'gantry doctor --fix' tries it again at once: what is in the way is said above\.$/],
  [[orphan, blocked], /2 problems\. 'gantry doctor --fix' takes care of 1 and tries 1 again\.$/],
  [[{ ...blocked, outcome: 'failed', error: 'no' }], /1 problem\. What is in the way is said above\.$/],
  [[stuck], /1 problem\. What is in the way is said above; it is tried again by itself\.$/],
  [[stuck, advice], /2 problems\. None of them is for a program to solve\.$/],
  [[advice], /1 problem\. None of them is for a program to solve\.$/],
];

for (const [findings, expected] of SUMMARIES) {
  test(`the doctor promises what it can keep: ${findings.map(({ problem }) => problem).join(', ') || 'nothing'}`, () => {
    const lines = reportLines({ instanceId: 'i', findings, notices: [] }, { wide: false });
    assert.match(lines.at(-1) ?? '', expected);
  });
}
