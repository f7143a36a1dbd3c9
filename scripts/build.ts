/**
 * `npm run build`: the package that users install: each program and worker as one file of JavaScript, the launchers, the documents, and a
 * package.json without what only a checkout needs.
 *
 * usage: build.ts [DIRECTORY]   DIRECTORY is new or empty; default: dist/, made anew
 */
import { build, type BuildOptions, type Metafile } from 'esbuild';
import { spawnSync } from 'node:child_process';
import { cpSync, globSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const [asked] = process.argv.slice(2);
const output = asked === undefined ? join(root, 'dist') : resolve(asked);
const target = join(output, 'package');
const javascript = join(target, 'dist');

interface PackageJson {
  name: string;
  version: string;
  license?: string;
  scripts?: Record<string, string>;
  dependencies: Record<string, string>;
  devDependencies?: Record<string, string>;
  private?: boolean;
  files?: string[];
}

function readPackage(path: string): PackageJson {
  return JSON.parse(readFileSync(path, 'utf8')) as PackageJson;
}

/** What brings native code of its own is installed beside the package. */
const NATIVE = ['koffi'];

/** All output lies in one folder, so that a worker is beside whoever starts it, wherever its source is. */
const shared: BuildOptions = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  target: 'node26',
  format: 'esm',
  outdir: javascript,
  external: NATIVE,
  // Names of functions and classes are part of what errors and logs say.
  keepNames: true,
  legalComments: 'none',
  metafile: true,
  logLevel: 'warning',
  // Packages in CommonJS ask for Node's own modules by `require`.
  banner: {
    js: "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);",
  },
};

/** `gantryd/main.ts` becomes `gantryd.js`; a worker keeps its name. */
function entryName(path: string): string {
  return basename(path) === 'main.ts' ? basename(dirname(path)) : basename(path, '.ts');
}

function entries(paths: readonly string[]): { in: string; out: string }[] {
  const named = paths.map((path) => ({ in: path, out: entryName(path) }));
  const twice = named.find(({ out }, index) => named.findIndex((other) => other.out === out) !== index);
  if (twice !== undefined) throw new Error(`build: two entries are called ${twice.out}`);
  return named;
}

/** The sources that are started as threads or processes of their own, by who starts them. */
const workers = globSync('src/**/*.ts', { cwd: root }).flatMap((path) => {
  const started = readFileSync(join(root, path), 'utf8').matchAll(/workerUrl\(import\.meta\.url, '([^']+)'\)/g);
  return [...started].map(([, name = '']) => join(dirname(path), `${name}.ts`));
});

async function bundle(): Promise<Metafile[]> {
  const built = await Promise.all([
    // A command loads only its own part of the CLI.
    build({ ...shared, entryPoints: entries(['src/cli/main.ts']), splitting: true, chunkNames: 'cli-[name]-[hash]' }),
    // The daemon needs all of itself: one file is read quicker than hundreds, and takes less memory.
    build({ ...shared, entryPoints: entries(['src/gantryd/main.ts', ...workers]) }),
  ]);
  return built.map(({ metafile }) => metafile as Metafile);
}

/** The licences of the packages whose code is in the bundles ask for their texts to go with it. */
function licences(metafiles: readonly Metafile[]): string {
  const inputs = metafiles.flatMap((metafile) => Object.keys(metafile.inputs));
  const folders = inputs.flatMap((path) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []);
  const texts = [...new Set(folders)].sort().map((folder) => {
    const { name, version, license = 'none named' } = readPackage(join(root, folder, 'package.json'));
    const file = readdirSync(join(root, folder)).find((found) => /^licen[cs]e/i.test(found));
    // A few packages only name theirs.
    const text = file === undefined ? `Licence: ${license}` : readFileSync(join(root, folder, file), 'utf8').trim();
    return `${name} ${version}\n\n${text}\n`;
  });
  return texts.join(`\n${'-'.repeat(80)}\n\n`);
}

function run(program: string, args: readonly string[], cwd: string): void {
  const { status } = spawnSync(program, args, { cwd, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

// dist/ is made by this script alone.
if (asked === undefined) rmSync(output, { recursive: true, force: true });
mkdirSync(target, { recursive: true });
const metafiles = await bundle();
for (const name of ['bin', 'examples', 'README.md', 'CHANGELOG.md', 'LICENSE']) {
  cpSync(join(root, name), join(target, name), { recursive: true });
}
writeFileSync(join(target, 'THIRD-PARTY-LICENSES'), licences(metafiles));
const published = readPackage(join(root, 'package.json'));
// What only a checkout needs.
delete published.scripts;
delete published.devDependencies;
delete published.private;
published.dependencies = Object.fromEntries(
  Object.entries(published.dependencies).filter(([name]) => NATIVE.includes(name)),
);
published.files = ['bin', 'dist', 'examples', 'README.md', 'CHANGELOG.md', 'LICENSE', 'THIRD-PARTY-LICENSES'];
writeFileSync(join(target, 'package.json'), `${JSON.stringify(published, undefined, 2)}\n`);
run('npm', ['pack', '--silent', '--pack-destination', output], target);
console.log(`built: install it with 'npm install -g ${join(output, `gantry-${published.version}.tgz`)}'`);
