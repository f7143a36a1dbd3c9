/** All that can be said about the code without running it, and the unit tests: format, lint, types, import rules, dead exports. */
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

interface Check {
  readonly name: string;
  /** Script of an npm package, run on this Node. */
  readonly script: string;
  readonly args: readonly string[];
}

const packaged = (path: string): string => join(root, 'node_modules', path);

const checks: readonly Check[] = [
  { name: 'format', script: packaged('prettier/bin/prettier.cjs'), args: ['--check', '--log-level', 'warn', '.'] },
  { name: 'types', script: packaged('typescript/bin/tsc'), args: ['-p', '.'] },
  { name: 'lint', script: packaged('eslint/bin/eslint.js'), args: ['--max-warnings', '0', '.'] },
  {
    name: 'import rules',
    script: packaged('dependency-cruiser/bin/dependency-cruiser.mjs'),
    args: ['--output-type', 'err', 'src'],
  },
  { name: 'dead exports', script: packaged('knip/bin/knip.js'), args: ['--no-progress', '--no-config-hints'] },
  { name: 'unit tests', script: join(root, 'scripts/test.ts'), args: ['--unit'] },
];

const only = process.argv.slice(2);
const failed: string[] = [];
for (const check of checks) {
  if (only.length > 0 && !only.includes(check.name)) continue;
  const began = performance.now();
  const { status } = spawnSync(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', check.script, ...check.args],
    {
      cwd: root,
      stdio: 'inherit',
    },
  );
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  console.log(`${status === 0 ? 'ok    ' : 'FAILED'} ${check.name} (${seconds} s)`);
  if (status !== 0) failed.push(check.name);
}
if (failed.length > 0) {
  console.error(`check: ${failed.join(', ')} failed`);
  process.exit(1);
}
