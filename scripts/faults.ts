/**
 * Kills the runtime with SIGKILL at every fault point, one after the other, starts it again, lets a client finish what it was
 * at, and looks whether all is as if nothing had happened: state, exit codes, log lines, nothing left on the host. Needs root.
 *
 * usage: npm run test:faults -- [--only=PATTERN] [--every=N [--from=K]] [--once | --again] [--missing] [--rooms=N]
 *   [--users | --write]
 *   --only    the steps whose name the regular expression finds
 *   --every   each N-th case, beginning with the K-th (default 1st)
 *   --once    without the variant that kills the recovery, too
 *   --again   only that variant
 *   --missing only what the table in docs/faults.md has no outcome of
 *   --rooms   so many side by side, each a daemon with places of its own (default 2)
 *   --users   pods have users of their own in all of it; the table is not for these
 *   --write   keep the outcomes in docs/faults.md, beside what is there of other runs
 */
import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ALL_CASES } from '../test/faults/cases.ts';
import type { Outcome } from '../test/faults/lives.ts';
import { describeOutcome, rowsOf, tableOf, updateTable } from '../test/faults/report.ts';
import { runCases } from '../test/faults/run-cases.ts';

const DOCUMENT = join(dirname(dirname(fileURLToPath(import.meta.url))), 'docs/faults.md');

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    every: { type: 'string', default: '1' },
    from: { type: 'string', default: '1' },
    once: { type: 'boolean', default: false },
    again: { type: 'boolean', default: false },
    missing: { type: 'boolean', default: false },
    rooms: { type: 'string', default: '2' },
    users: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
  },
});
if (process.getuid?.() !== 0) {
  console.error('the fault tests need root');
  process.exit(1);
}
if (values.users && values.write) {
  console.error('--users and --write: the table is of pods with the users of the host');
  process.exit(1);
}
const only = new RegExp(values.only);
const known = rowsOf(await readFile(DOCUMENT, 'utf8'));
const cases = ALL_CASES.filter(
  ({ step, variant }) =>
    only.test(step) &&
    !(variant === 'again' ? values.once : values.again) &&
    !(values.missing && (known.get(step)?.[variant] ?? '') !== ''),
)
  // The first of each N beginning with the K-th.
  .filter((_, i) => i % Number(values.every) === Number(values.from) - 1)
  .map((one) => (values.users && one.life === 'pod' ? { ...one, life: 'mapped-pod' as const } : one));
const interrupt = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    console.log('finishing what was begun, to leave nothing behind');
    interrupt.abort();
  });
}
const tell = (outcome: Outcome): void => {
  console.log(describeOutcome(outcome));
};
const outcomes = await runCases(cases, Number(values.rooms), tell, interrupt.signal);
console.log(`\n${tableOf(outcomes)}`);
if (values.write) await writeFile(DOCUMENT, updateTable(await readFile(DOCUMENT, 'utf8'), outcomes));
const failed = outcomes.filter(({ failure }) => failure !== undefined).length;
const notRun = outcomes.filter(({ lacking }) => lacking !== undefined).length;
const passed = outcomes.length - failed - notRun;
console.log(`${String(passed)} passed, ${String(failed)} failed, ${String(notRun)} not run`);
process.exit(failed > 0 || outcomes.length === 0 ? 1 : 0);
