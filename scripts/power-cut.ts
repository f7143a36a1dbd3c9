/**
 * For a machine whose power is going to be cut: does work until it goes, and after the next boot looks whether everything that had
 * been acknowledged is true, nothing is made up, and the pods go on; then works again. Who cuts the power is up to you.
 *
 * usage: npm run power-cut -- DIR         (on the machine, after each boot; DIR on a real disk)
 *        npm run power-cut -- DIR --end   looks, deletes everything and looks for leaks
 *
 * Prints one line that begins with `ok` or `VIOLATION` for each look, then `working`. Exit code 1 after a violation.
 */
import { mkdir, readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { lookAtPods, lookAtRuntime, type Look } from '../test/power-cut/look.ts';
import { Record } from '../test/power-cut/record.ts';
import { work } from '../test/power-cut/workload.ts';
import { Gantryd } from '../test/support/gantryd.ts';
import { look as lookForLeaks } from '../test/support/leak-probes.ts';
import { TempRoot } from '../test/support/temp-root.ts';

const STATE = '/run/gantry-cut';

const { values, positionals } = parseArgs({
  options: { end: { type: 'boolean', default: false } },
  allowPositionals: true,
});
const [dir] = positionals;
if (dir === undefined || process.getuid?.() !== 0) {
  console.error('usage, as root: npm run power-cut -- DIR [--end]');
  process.exit(2);
}
await mkdir(dir, { recursive: true });
const root = await TempRoot.at({
  dir: resolve(dir),
  instance: 'powercut',
  state: STATE,
  netnsDir: join(STATE, 'netns'),
});
const record = new Record(join(root.dir, 'record'));
const earlier = await record.read();
const began = performance.now();
const after = (): string => `${((performance.now() - began) / 1_000).toFixed(0)} s`;
const daemon = await Gantryd.make({ root });
const seen: Look = { seen: [], violations: [] };
if (earlier.length > 0) {
  // The agent would go on at once: first what the runtime says alone.
  const alone = await Gantryd.make({ root, flags: ['--runtime-only'] });
  await alone.start({ agent: false });
  await lookAtRuntime(alone, seen);
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
  const left = await lookForLeaks(root.leakRoots());
  for (const [probe, lines] of left) {
    if (!['files and folders', 'processes'].includes(probe))
      for (const line of lines) console.log(`left: ${probe}: ${line}`);
  }
  await daemon.end('SIGTERM');
  console.log(`sandboxes left: ${String((await readdir(join(root.state, 'sandboxes')).catch(() => [])).length)}`);
  process.exit(0);
}
