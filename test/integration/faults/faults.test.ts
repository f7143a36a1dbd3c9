import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FaultPoint } from '../../../src/lib/fault-points.ts';
import { ALL_CASES, type FaultCase } from '../../faults/cases.ts';
import { runCases } from '../../faults/run-cases.ts';

const skip = process.getuid?.() !== 0 && 'needs root';

/** One of most verbs, where most is under way. The rest: `npm run test:faults`. */
const SAMPLE: readonly (readonly [FaultPoint, FaultCase['variant']])[] = [
  ['run-sandbox/network-connected', 'again'],
  ['create-container/snapshot-made', 'once'],
  ['start-container/command-started', 'once'],
  ['make-task/created', 'once'],
  ['exit/seen', 'once'],
  ['stop-container/signalled', 'once'],
  ['release/cni-gone', 'again'],
  ['pull-image/unpacked', 'once'],
];

test('killed at a step and started again, all is as if nothing had happened', { skip }, async () => {
  const cases = SAMPLE.map(([point, variant]) => {
    const found = ALL_CASES.find((one) => one.point === point && one.variant === variant);
    assert.ok(found);
    return found;
  });
  const outcomes = await runCases(cases, 2);
  const failures = outcomes.filter(({ failure }) => failure !== undefined);
  assert.deepEqual(
    failures.map(({ case: { plans }, failure }) => ({ plans, failure })),
    [],
  );
});
