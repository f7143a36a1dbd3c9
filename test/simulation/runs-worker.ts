import { parentPort, workerData } from 'node:worker_threads';
import { simulate } from './simulate.ts';

/** From which seed on, and how many runs at most. */
export interface RunsRequest {
  readonly seed: number;
  readonly runs: number;
}

export interface RunsReply {
  /** The first run that went wrong. */
  readonly wrong: number | undefined;
  readonly runs: number;
  readonly steps: number;
  /** How often the daemon was started again. */
  readonly restarts: number;
}

// In a thread of its own: what the test runner keeps about each promise would double the time.
const { seed: first, runs } = workerData as RunsRequest;
let [done, steps, restarts] = [0, 0, 0];
let wrong: number | undefined;
while (done < runs && wrong === undefined) {
  const outcome = await simulate(first + done);
  done++;
  steps += outcome.steps;
  restarts += outcome.lives - 1;
  if (outcome.violations.length > 0) wrong = outcome.seed;
}
parentPort?.postMessage({ wrong, runs: done, steps, restarts } satisfies RunsReply);
