/**
 * `npm run build`: the package that users install: each program and worker as one file of JavaScript, the launchers, the documents, and a
 * package.json without what only a checkout needs.
 *
 * usage: build.ts [DIRECTORY]   DIRECTORY is new or empty; default: dist/, made anew
 */
import { build, type BuildOptions, type Metafile, type Plugin } from 'esbuild';
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

/**
 * commander can start another program for a command; ours have none. Loading what starts programs is a tenth of what `gantry get` takes, so it is
 * left until somebody asks.
 */
const commanderStartsNothing: Plugin = {
  name: 'commander starts nothing',
  setup: (bundler) => {
    const namespace = 'asked-for-late';
    bundler.onResolve({ filter: /^node:child_process$/ }, ({ path, importer }) =>
      importer.includes('/node_modules/commander/') ? { path, namespace } : undefined,
    );
    bundler.onLoad({ filter: /.*/, namespace }, ({ path }) => ({
      contents: `export default { spawn: (...told) => process.getBuiltinModule('${path}').spawn(...told) };`,
    }));
  },
};

/**
 * All output lies in one folder, so that a worker is beside whoever starts it, wherever its source is. CommonJS: Node reads one file of it in half the time that
 * it needs for modules, and loads no more of its own than is asked for.
 */
const shared: BuildOptions = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  target: 'node26',
  format: 'cjs',
  outExtension: { '.js': '.cjs' },
  outdir: javascript,
  external: NATIVE,
  // Names of functions and classes are part of what errors and logs say.
  keepNames: true,
  legalComments: 'none',
  logLevel: 'warning',
  banner: { js: "const ownUrl = require('node:url').pathToFileURL(__filename).href;" },
  define: { 'import.meta.url': 'ownUrl' },
  plugins: [commanderStartsNothing],
};

/** `gantryd/main.ts` becomes `gantryd.cjs`; a worker keeps its name. */
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

/** One file each: it is read quicker than hundreds, and what a program does not come to is not even compiled. */
async function bundle(): Promise<Metafile> {
  const programs = ['src/cli/main.ts', 'src/gantryd/main.ts', ...workers];
  const { metafile } = await build({ ...shared, entryPoints: entries(programs), metafile: true });
  return metafile;
}

/** The licences of the packages whose code is in the bundles ask for their texts to go with it. */
function licences({ inputs }: Metafile): string {
  const folders = Object.keys(inputs).flatMap(
    (path) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? [],
  );
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
const metafile = await bundle();
for (const name of ['bin', 'examples', 'README.md', 'CHANGELOG.md', 'LICENSE']) {
  cpSync(join(root, name), join(target, name), { recursive: true });
}
writeFileSync(join(target, 'THIRD-PARTY-LICENSES'), licences(metafile));
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
