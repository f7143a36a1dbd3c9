/**
 * For a machine whose power is going to be cut: does work until it goes, and after the next boot looks whether everything that had
 * been acknowledged is true, nothing is made up, and the pods go on; then works again. Who cuts the power is up to you.
 *
 * usage: npm run power-cut -- DIR            (on the machine, after each boot; DIR on a real disk)
 *        npm run power-cut -- DIR --end      looks, deletes everything and looks for leaks
 *        npm run power-cut -- DIR --cuts N   all of it without a machine to spare: in one made of namespaces, cut N times
 *   --instance ID                            for Gantry and its cgroups (powercut)
 *
 * Prints one line that begins with `ok` or `VIOLATION` for each look, then `working`, at the end `nothing is left`. Exit code 1 after
 * a violation.
 */
import { randomInt } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { uptime } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { cutAgainAndAgain } from '../test/power-cut/cuts.ts';
import { lookAtPods, lookAtRuntime, type Look } from '../test/power-cut/look.ts';
import { Record } from '../test/power-cut/record.ts';
import { work } from '../test/power-cut/workload.ts';
import { Random } from '../test/soak/random.ts';
import { Gantryd } from '../test/support/gantryd.ts';
import { look as lookForLeaks } from '../test/support/leak-probes.ts';
import { TempRoot } from '../test/support/temp-root.ts';

const STATE = '/run/gantry-cut';

const { values, positionals } = parseArgs({
  options: {
    end: { type: 'boolean', default: false },
    cuts: { type: 'string' },
    instance: { type: 'string', default: 'powercut' },
  },
  allowPositionals: true,
});
const [dir] = positionals;
if (dir === undefined || process.getuid?.() !== 0) {
  console.error('usage, as root: npm run power-cut -- DIR [--end | --cuts N] [--instance ID]');
  process.exit(2);
}
await mkdir(dir, { recursive: true });
if (values.cuts !== undefined) {
  const seed = randomInt(1, 1_000_000);
  const violations = await cutAgainAndAgain({
    dir: resolve(dir),
    instance: values.instance,
    cuts: Number(values.cuts),
    random: new Random(seed),
    progress: (line) => console.log(line),
  });
  process.exit(violations.length === 0 ? 0 : 1);
}
const root = await TempRoot.at({
  dir: resolve(dir),
  instance: values.instance,
  state: STATE,
  netnsDir: join(STATE, 'netns'),
});
const record = new Record(join(root.dir, 'record'));
const earlier = await record.read();
await record.add({ kind: 'boot', atMs: Date.now() - uptime() * 1_000 });
const began = performance.now();
const after = (): string => `${((performance.now() - began) / 1_000).toFixed(0)} s`;
const daemon = await Gantryd.make({ root });
const seen: Look = { seen: [], violations: [] };
if (earlier.length > 0) {
  // The agent would go on at once: first what the runtime says alone.
  const alone = await Gantryd.make({ root, flags: ['--runtime-only'] });
  await alone.start({ agent: false });
  await lookAtRuntime(alone, record, seen);
  await alone.end('SIGTERM');
  console.log(`looked at the runtime after ${after()}`);
}
await daemon.start();
if (earlier.length === 0) await daemon.importImage();
else await lookAtPods(daemon, record, seen);
const log = await daemon.log();
for (const line of log.split('\n').filter((text) => /damaged|malformed/.test(text))) seen.violations.push(line);
for (const violation of seen.violations) console.log(`VIOLATION ${violation}`);
if (seen.violations.length > 0) process.exit(1);
console.log(`ok after ${after()}: ${seen.seen.join('; ')}`);
if (values.end) await end();
console.log('working');
await work(daemon, record, (await boots()) + 1);

/** A number that no earlier boot had, for names. */
async function boots(): Promise<number> {
  return (await record.read()).filter(({ kind }) => kind === 'created').length;
}

async function end(): Promise<never> {
  await daemon.endPods();
  await daemon.end('SIGTERM');
  let isClean = true;
  for (const [probe, lines] of await lookForLeaks(root.leakRoots())) {
    // Images stay, and so do their layers.
    if (probe === 'files and folders') continue;
    for (const line of lines) {
      console.log(`left: ${probe}: ${line}`);
      isClean = false;
    }
  }
  if (isClean) console.log('nothing is left');
  process.exit(isClean ? 0 : 1);
}
