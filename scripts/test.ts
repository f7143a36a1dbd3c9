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
import { globSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { run } from 'node:test';
import type { EventData } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const FILE_TIMEOUT_MS = 20 * 60_000;

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

async function runPhase(phase: Phase, tally: Tally): Promise<void> {
  if (phase.files.length === 0) return;
  const began = performance.now();
  const mine: Tally = { passed: 0, failed: 0, skipped: 0 };
  const stream = run({ files: [...phase.files], concurrency: phase.concurrency, timeout: FILE_TIMEOUT_MS, cwd: root });
  stream.on('test:pass', (data) => {
    if (!isLeaf(data)) return;
    if (isSet(data.skip)) mine.skipped++;
    else mine.passed++;
  });
  stream.on('test:fail', (data) => {
    if (!isLeaf(data) || isSet(data.todo)) return;
    mine.failed++;
    const cause: unknown = data.details.error.cause ?? data.details.error;
    console.log(`\nFAILED ${relative(root, data.file ?? '?')}:${data.line ?? 0}  ${data.name}`);
    console.log(cause instanceof Error ? (cause.stack ?? cause.message) : String(cause));
  });
  stream.resume();
  await new Promise((done) => stream.once('end', done));
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  console.log(
    `${phase.title}: ${phase.files.length} files in ${seconds} s, ${mine.passed} passed, ${mine.failed} failed, ${mine.skipped} skipped.`,
  );
  tally.passed += mine.passed;
  tally.failed += mine.failed;
  tally.skipped += mine.skipped;
}

const tally: Tally = { passed: 0, failed: 0, skipped: 0 };
for (const phase of phases(process.argv.slice(2))) await runPhase(phase, tally);
if (tally.skipped > 0 && process.getuid?.() !== 0) {
  console.log(`${tally.skipped} tests need root and were skipped: run 'npm test' as root for all of them`);
}
console.log(`${tally.passed} passed, ${tally.failed} failed${tally.skipped > 0 ? `, ${tally.skipped} skipped` : ''}`);
process.exit(tally.failed > 0 || tally.passed === 0 ? 1 : 0);
