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
import { run, type TestEvent } from 'node:test';
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
  const find = (pattern: string): string[] => globSync(pattern, { cwd: root }).sort().map((file) => resolve(root, file));
  const unit = { title: 'unit', files: find('{src,test/unit,scripts}/**/*.test.ts'), concurrency: 2 };
  if (args.includes('--unit')) return [unit];
  return [unit, { title: 'integration', files: find('test/integration/**/*.test.ts'), concurrency: 1 }];
}

function countLeaf(event: TestEvent, tally: Tally): void {
  if (event.type !== 'test:pass' && event.type !== 'test:fail') return;
  const { details, skip, todo, name, file, line } = event.data;
  // Suites and whole files are reported too: only what asserts counts.
  if (details.type === 'suite') return;
  if (skip !== undefined && skip !== false) tally.skipped++;
  else if (event.type === 'test:fail' && (todo === undefined || todo === false)) {
    const error = details.error;
    const cause: unknown = error.cause ?? error;
    tally.failed++;
    console.log(`\nFAILED ${relative(root, file ?? '?')}:${String(line ?? 0)}  ${name}`);
    console.log(cause instanceof Error ? (cause.stack ?? cause.message) : String(cause));
  } else tally.passed++;
}

async function runPhase(phase: Phase, tally: Tally): Promise<void> {
  if (phase.files.length === 0) return;
  const began = performance.now();
  const before = { ...tally };
  const stream = run({ files: [...phase.files], concurrency: phase.concurrency, timeout: FILE_TIMEOUT_MS, cwd: root });
  let currentFile = '';
  for await (const event of stream as AsyncIterable<TestEvent>) {
    if (event.type === 'test:stderr' || event.type === 'test:stdout') continue;
    countLeaf(event, tally);
    if (phase.concurrency === 1 && event.type === 'test:pass') {
      const file = relative(root, event.data.file ?? '');
      if (file !== currentFile && process.stdout.isTTY) console.log(`  ${file}`);
      currentFile = file;
    }
  }
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  const passed = tally.passed - before.passed;
  const failed = tally.failed - before.failed;
  const skipped = tally.skipped - before.skipped;
  console.log(`${phase.title}: ${phase.files.length} files in ${seconds} s (passed ${passed}, failed ${failed}, skipped ${skipped})`);
}

const tally: Tally = { passed: 0, failed: 0, skipped: 0 };
for (const phase of phases(process.argv.slice(2))) await runPhase(phase, tally);
if (tally.skipped > 0 && process.getuid?.() !== 0) {
  console.log(`${tally.skipped} tests need root and were skipped: run 'npm test' as root for all of them`);
}
console.log(`${tally.passed} passed, ${tally.failed} failed${tally.skipped > 0 ? `, ${tally.skipped} skipped` : ''}`);
process.exit(tally.failed > 0 || tally.passed === 0 ? 1 : 0);
