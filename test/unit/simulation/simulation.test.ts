import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { short } from '../../simulation/names.ts';
import type { RunsReply, RunsRequest } from '../../simulation/runs-worker.ts';
import { simulate } from '../../simulation/simulate.ts';

/** One run again, or where to begin. */
const SEED = process.env['GANTRY_SIM_SEED'];
/** How many runs: each a machine, a few containers and a daemon, with another order of everything. */
const RUNS = Number(process.env['GANTRY_SIM_RUNS'] ?? (SEED === undefined ? 2_000 : 1));
/** Of what happened, the end is told. */
const TOLD_LINES = 120;

async function explain(seed: number): Promise<string> {
  const { violations, trace } = await simulate(seed, true);
  return [
    `the simulation with seed ${String(seed)} went wrong; to see it again: GANTRY_SIM_SEED=${String(seed)}`,
    ...trace.slice(-TOLD_LINES),
    ...violations,
  ]
    .map(short)
    .join('\n');
}

test('exits, stops, removals, restarts and faults in any order: no exit is lost, told twice or held up, and nothing is left', async (t) => {
  const workerData: RunsRequest = { seed: Number(SEED ?? 1), runs: RUNS };
  const worker = new Worker(new URL('../../simulation/runs-worker.ts', import.meta.url), { workerData });
  const [{ wrong, runs, steps, restarts }] = (await once(worker, 'message')) as [RunsReply];
  if (wrong !== undefined) assert.fail(await explain(wrong));
  assert.equal(runs, RUNS);
  t.diagnostic(`${String(runs)} runs, ${String(steps)} choices of what comes next, ${String(restarts)} restarts`);
  // So many runs without a death of the daemon would show little.
  if (runs > 100) assert.ok(restarts > runs, `${String(restarts)} restarts in ${String(runs)} runs`);
});

test('the same seed is the same run', async () => {
  const [first, second] = [await simulate(7, true), await simulate(7, true)];
  const anonymous = (lines: readonly string[]): string[] => lines.map((line) => line.replaceAll(/[0-9a-f]{8,}/g, 'ID'));
  assert.deepEqual(anonymous(first.trace), anonymous(second.trace));
  assert.ok(first.trace.length > 50);
});
