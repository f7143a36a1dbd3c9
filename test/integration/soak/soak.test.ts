import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runSoak } from '../../soak/run-soak.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
/** A short one; `npm run soak` is the long one. */
const SEED = 20261121;

test('pods end as planned while gantryd is killed again and again', { skip }, async () => {
  const { tally, table, violations } = await runSoak({
    seed: SEED,
    parallel: 3,
    containers: 10,
    kills: 4,
    // A machine that emulates another one does fewer in that time, and finishes what it has begun.
    seconds: 90,
  });
  assert.deepEqual(violations, [], `seed ${SEED}\n${table.join('\n')}`);
  assert.ok(tally.containers > 0);
});
