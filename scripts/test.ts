/**
 * Runs the tests and ends with one line: `N passed, N failed, N skipped`.
 *
 * usage: test.ts [--unit] [FILE …]
 *   --unit   only the tests beside the sources, which need no root and no real parts
 *   FILE     these files alone
 *
 * Unit tests run side by side; the integration tests (real containers) one file after another. Those that need root skip
 * themselves without it.
 */
import { globSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { run } from 'node:test';
import type { EventData } from 'node:test';
import { fileURLToPath } from 'node:url';
import { systemClock } from '../src/lib/clock.ts';
import { silentLog } from '../src/lib/log.ts';
import { SafeRemove } from '../src/linux/safe-remove.ts';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
/** A file that hangs must not hold the run up for ever; a machine that emulates another one is 20 times slower. */
const FILE_TIMEOUT_MS = 40 * 60_000;

interface Tally {
  passed: number;
  failed: number;
  skipped: number;
}

interface Phase {
  readonly title: string;
  readonly files: readonly string[];
  readonly concurrency: number;
}

function phases(args: readonly string[]): Phase[] {
  const named = args.filter((arg) => !arg.startsWith('--')).map((arg) => resolve(arg));
  if (named.length > 0) return [{ title: 'named files', files: named, concurrency: 1 }];
  const find = (pattern: string): string[] =>
    globSync(pattern, { cwd: root })
      .sort()
      .map((file) => resolve(root, file));
  const unit = { title: 'unit', files: find('{src,test/unit,scripts}/**/*.test.ts'), concurrency: 2 };
  if (args.includes('--unit')) return [unit];
  return [unit, { title: 'integration', files: find('test/integration/**/*.test.ts'), concurrency: 1 }];
}

/** Suites and whole files are reported too: only what asserts counts. */
function isLeaf(data: EventData.TestPass | EventData.TestFail): boolean {
  return data.details.type !== 'suite' && data.name !== data.file;
}

function isSet(mark: string | boolean | undefined): boolean {
  return mark !== undefined && mark !== false;
}

/** What the runner itself says at its end, as it says what a test has measured. */
const SUMMARY = /^(tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) [\d.]+$/;

/** Runs files and tells each failure as it happens; of files that were named, also what they have measured. */
async function runFiles(files: readonly string[], concurrency: number): Promise<Tally> {
  const tally: Tally = { passed: 0, failed: 0, skipped: 0 };
  const stream = run({ files: [...files], concurrency, timeout: FILE_TIMEOUT_MS, cwd: root });
  stream.on('test:pass', (data) => {
    // A suite that is skipped tells of none of its tests: it counts as one.
    if (isSet(data.skip)) {
      tally.skipped++;
      if (process.getuid?.() === 0) tellSkipped(data);
    } else if (isLeaf(data)) tally.passed++;
  });
  stream.on('test:fail', (data) => {
    if (isSet(data.todo)) return;
    const cause: unknown = data.details.error.cause ?? data.details.error;
    // A file that did not even load, or that was cut off, has no failed test inside it. A hook that failed is why the tests of
    // its suite did, which do not say so themselves.
    const isHook = 'failureType' in data.details.error && data.details.error.failureType === 'hookFailed';
    if (!isLeaf(data) && !isHook && !(data.name === data.file && tally.failed === 0)) return;
    if (isLeaf(data) || !isHook) tally.failed++;
    console.log(`\nFAILED ${relative(root, data.file ?? '?')}:${data.line ?? 0}  ${data.name}`);
    console.log(cause instanceof Error ? (cause.stack ?? cause.message) : String(cause));
  });
  stream.on('test:diagnostic', ({ message }) => {
    if (areNamed && !SUMMARY.test(message)) console.log(`       ${message}`);
  });
  stream.resume();
  await new Promise((done) => stream.once('end', done));
  return tally;
}

/** Without root there are too many, all for the same reason, which is said once at the end. */
function tellSkipped({ file, line, name, skip }: EventData.TestPass): void {
  const why = typeof skip === 'string' ? `: ${skip}` : '';
  console.log(`skipped ${relative(root, file ?? '?')}:${String(line ?? 0)}  ${name}${why}`);
}

function words({ passed, failed, skipped }: Tally): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
}

async function runPhase(phase: Phase, total: Tally): Promise<void> {
  // Side by side as one run; one after another as a run each, so that a person sees where it is.
  const runs = phase.concurrency > 1 ? [phase.files] : phase.files.map((file) => [file]);
  for (const files of runs) {
    if (files.length === 0) continue;
    const began = performance.now();
    const tally = await runFiles(files, phase.concurrency);
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    const what = files.length === 1 ? relative(root, files[0] ?? '') : `${phase.title} tests (${files.length} files)`;
    console.log(`${tally.failed > 0 ? 'FAILED' : 'ok    '} ${what}: ${words(tally)} in ${seconds} s.`);
    total.passed += tally.passed;
    total.failed += tally.failed;
    total.skipped += tally.skipped;
  }
}

/** Returns what is in the way. */
async function removeTemporary(path: string): Promise<string[]> {
  // Without root nothing can have been mounted, and the detached view of the safe way cannot be made.
  if (process.getuid?.() !== 0) {
    rmSync(path, { recursive: true, force: true });
    return [];
  }
  const op = { signal: new AbortController().signal, log: silentLog };
  const removed = await new SafeRemove({ clock: systemClock }).remove(op, { root: dirname(path), path });
  return removed.kind === 'blocked' ? removed.blockers.map((blocker) => blocker.message) : [];
}

// The tests' temporary folders go with the run; what is mounted in one is left alone and fails the run.
const temporary = mkdtempSync(join(tmpdir(), 'gantry-test-'));
process.env['TMPDIR'] = temporary;
const areNamed = process.argv.slice(2).some((arg) => !arg.startsWith('--'));
const tally: Tally = { passed: 0, failed: 0, skipped: 0 };
for (const phase of phases(process.argv.slice(2))) await runPhase(phase, tally);
for (const left of await removeTemporary(temporary)) {
  tally.failed++;
  console.log(`FAILED the tests left something behind: ${left}`);
}
if (tally.skipped > 0 && process.getuid?.() !== 0) {
  console.log(`${tally.skipped} tests need root and were skipped: run 'npm test' as root for all of them`);
}
console.log(words(tally));
process.exit(tally.failed > 0 || tally.passed === 0 ? 1 : 0);
