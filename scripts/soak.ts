/**
 * Runs pods whose exit codes and log lines are known while gantryd is killed with SIGKILL every 1 to 6 s, and ends with a table.
 * Exit code 1, with the seed, when anything was not as it had to be.
 *
 * usage: npm run soak -- [--containers N] [--kills N] [--seconds N] [--parallel N] [--seed N] [--keep]
 *   --containers N, --kills N   go on until there were so many of both (2000, 100)
 *   --seconds N                 at most so long (unlimited)
 *   --parallel N                pods side by side (3)
 *   --seed N                    draws the same pods and kills again
 *   --keep                      leave everything in place when something was wrong
 */
import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { runSoak } from '../test/soak/run-soak.ts';

const { values } = parseArgs({
  options: {
    containers: { type: 'string', default: '2000' },
    kills: { type: 'string', default: '100' },
    seconds: { type: 'string', default: '1000000' },
    parallel: { type: 'string', default: '3' },
    seed: { type: 'string', default: String(randomInt(1, 1_000_000)) },
    keep: { type: 'boolean', default: false },
  },
});

function count(name: 'containers' | 'kills' | 'seconds' | 'parallel' | 'seed'): number {
  const value = Number(values[name]);
  if (Number.isSafeInteger(value) && value >= 0) return value;
  console.error(`soak: --${name} ${values[name]} is no number`);
  process.exit(2);
}

if (process.getuid?.() !== 0) {
  console.error('soak: containers need root: run it as root');
  process.exit(2);
}
const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupted.abort());
const seed = count('seed');
const began = performance.now();
console.log(`seed ${seed}`);
const { table, violations, kept } = await runSoak({
  seed,
  parallel: count('parallel'),
  containers: count('containers'),
  kills: count('kills'),
  seconds: count('seconds'),
  keep: values.keep,
  signal: interrupted.signal,
  progress: (line) => console.log(`${((performance.now() - began) / 1000).toFixed(0).padStart(5)} s  ${line}`),
});
console.log(`\n${table.join('\n')}`);
for (const violation of violations) console.error(`\nVIOLATION ${violation}`);
if (violations.length > 0) {
  console.error(`\nsoak: ${violations.length} violations with --seed ${seed}`);
  if (kept !== undefined) console.error(`soak: everything is left as it was below ${kept}`);
  process.exit(1);
}
