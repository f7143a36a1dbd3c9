/**
 * Runs the suite on a Gantry of its own. Started by scripts/conformance.ts in namespaces of its own, with what to do in `GANTRY_CONFORMANCE`;
 * ends, and takes everything along, on SIGTERM and when who started it is gone.
 */
import { messageOf } from '../../src/lib/errors.ts';
import { versionOf } from './critest.ts';
import { OwnGantry, type OwnGantryOptions } from './own-gantry.ts';
import { runAll, type RunPlan } from './run-all.ts';

export interface RoomPlan {
  readonly run: RunPlan;
  readonly gantry: OwnGantryOptions;
}

const plan = JSON.parse(process.env['GANTRY_CONFORMANCE'] ?? '') as RoomPlan;
const ended = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => ended.abort(new Error(`ended by ${signal}`)));
process.once('disconnect', () => ended.abort(new Error('who started this is gone')));

async function main(): Promise<boolean> {
  await using gantry = await OwnGantry.start(plan.gantry);
  try {
    console.log(`critest ${await versionOf(plan.run.programs)} on ${await gantry.version()}`);
    const target = {
      socket: gantry.daemon.root.criSocket,
      within: [],
      afterRun: (run: number) => (run === 1 ? gantry.settle() : gantry.assertNothingLeft()),
    };
    return await runAll(plan.run, target, ended.signal);
  } finally {
    await gantry.keepLog(plan.run.folder);
  }
}

const ok = await main().catch((error: unknown) => {
  console.error(`conformance: ${messageOf(error)}`);
  return false;
});
process.exit(ok ? 0 : 1);
