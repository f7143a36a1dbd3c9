/**
 * `npm run build`: the package that users install: built JavaScript (Node strips no types inside node_modules), the launchers,
 * the documents, and a package.json without what only a checkout needs.
 *
 * usage: build.ts [DIRECTORY]   DIRECTORY is new or empty; default: dist/, made anew
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const [asked] = process.argv.slice(2);
const output = asked === undefined ? join(root, 'dist') : resolve(asked);
const target = join(output, 'package');

interface PackageJson {
  scripts?: Record<string, string>;
  devDependencies?: Record<string, string>;
  private?: boolean;
  files?: string[];
  version: string;
}

function run(program: string, args: readonly string[], cwd: string): void {
  const { status } = spawnSync(program, args, { cwd, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

// dist/ is made by this script alone.
if (asked === undefined) rmSync(output, { recursive: true, force: true });
mkdirSync(target, { recursive: true });
const compile = ['-p', 'tsconfig.build.json', '--outDir', join(target, 'dist')];
run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), ...compile], root);
for (const name of ['bin', 'examples', 'README.md', 'CHANGELOG.md', 'LICENSE']) {
  cpSync(join(root, name), join(target, name), { recursive: true });
}
const published = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as PackageJson;
// What only a checkout needs.
delete published.scripts;
delete published.devDependencies;
delete published.private;
published.files = ['bin', 'dist', 'examples', 'README.md', 'CHANGELOG.md', 'LICENSE'];
writeFileSync(join(target, 'package.json'), `${JSON.stringify(published, undefined, 2)}\n`);
run('npm', ['pack', '--silent', '--pack-destination', output], target);
console.log(`built: install it with 'npm install -g ${join(output, `gantry-${published.version}.tgz`)}'`);
