import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALL_CASES, type FaultCase } from '../../faults/cases.ts';
import { runCases } from '../../faults/run-cases.ts';

const skip = process.getuid?.() !== 0 && 'needs root';

/** One of most verbs, where most is under way; those of a pod's life are had in one or two. The rest: `npm run test:faults`. */
const SAMPLE: readonly (readonly [step: string, FaultCase['variant']])[] = [
  ['add-network/plug-in-running', 'once'],
  ['run-sandbox/network-connected', 'once'],
  ['create-container/snapshot-made', 'once'],
  ['make-task/created:2', 'once'],
  ['start-container/command-started', 'once'],
  ['exit/persisted', 'once'],
  ['stop-container/signalled', 'once'],
  ['remove-tree/entry-removed', 'once'],
  ['release/cni-gone', 'once'],
  ['remove-sandbox/released', 'once'],
  ['exit/seen', 'again'],
  ['unpack-layer/synced', 'again'],
];

test('killed at a step and started again, all is as if nothing had happened', { skip }, async () => {
  const cases = SAMPLE.map(([step, variant]) => {
    const found = ALL_CASES.find((one) => one.step === step && one.variant === variant);
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
