import { join } from 'node:path';
import { messageOf } from '../../src/lib/errors.ts';
import { runSuite, type Programs } from './critest.ts';
import { counts, judge, type Verdict } from './verdict.ts';

/** What is asked for; plain data, so that it can be handed to another process. */
export interface RunPlan {
  readonly programs: Programs;
  readonly parallel: number;
  /** Of the first run; each further one has the next. */
  readonly seed: number;
  readonly runs: number;
  readonly focus: readonly string[];
  readonly skip: readonly string[];
  /** Specs that we leave out, as their full names begin. */
  readonly omitted: readonly string[];
  /** See `VerdictRules`. */
  readonly withoutExcuse: readonly string[];
  readonly webSocket: boolean;
  readonly timeoutSeconds: number;
  /** Reports and logs are put below it. */
  readonly folder: string;
  /** See `VerdictRules`. */
  readonly strict: boolean;
}

export interface Target {
  readonly socket: string;
  readonly within: readonly string[];
  /** Throws when the runtime is not as it should be after a run, the `run`-th from 1. */
  afterRun?(run: number): Promise<void>;
}

/** Runs the suite as often as asked, and tells. True when all was well. */
export async function runAll(plan: RunPlan, target: Target, signal: AbortSignal): Promise<boolean> {
  const verdicts: Verdict[] = [];
  for (let run = 1; run <= plan.runs; run++) {
    const seed = plan.seed + run - 1;
    if (plan.runs > 1) console.log(`run ${String(run)} of ${String(plan.runs)}, seed ${String(seed)}`);
    const began = performance.now();
    const verdict = await runOnce(plan, target, run, seed, signal);
    for (const line of verdict.lines) console.log(line);
    const seconds = ((performance.now() - began) / 1000).toFixed(0);
    console.log(`${counts(verdict)} in ${seconds} s (seed ${String(seed)}${sideBySide(plan)})`);
    verdicts.push(verdict);
  }
  if (plan.runs > 1) {
    const bad = verdicts.flatMap(({ ok }, i) => (ok ? [] : [i + 1]));
    console.log(bad.length === 0 ? `all ${String(plan.runs)} runs passed` : `runs that failed: ${bad.join(', ')}`);
  }
  return verdicts.every(({ ok }) => ok);
}

async function runOnce(
  plan: RunPlan,
  target: Target,
  run: number,
  seed: number,
  signal: AbortSignal,
): Promise<Verdict> {
  const { programs, parallel, focus, skip, omitted, webSocket, timeoutSeconds } = plan;
  const results = await runSuite(programs, {
    socket: target.socket,
    within: target.within,
    folder: plan.runs > 1 ? join(plan.folder, `run-${String(run)}`) : plan.folder,
    parallel,
    seed,
    focus,
    skip: [...skip, ...omitted],
    webSocket,
    timeoutSeconds,
    signal,
  });
  const verdict = judge(results, plan);
  try {
    await target.afterRun?.(run);
    return verdict;
  } catch (error) {
    const lines = [...verdict.lines, `FAILED  afterwards: ${messageOf(error)}`];
    return { ...verdict, failed: verdict.failed + 1, ok: false, lines };
  }
}

function sideBySide({ parallel }: RunPlan): string {
  return parallel > 1 ? `, ${String(parallel)} at once` : '';
}
