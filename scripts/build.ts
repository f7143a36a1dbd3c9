/**
 * `npm run build`: the package that users install: programs and workers as few files of JavaScript, the launchers, the documents, and a
 * package.json without what only a checkout needs.
 *
 * usage: build.ts [DIRECTORY]   DIRECTORY is new or empty; default: dist/, made anew
 */
import { spawnSync } from 'node:child_process';
import { cpSync, globSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'rolldown';

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

const STARTS_PROGRAMS = 'node:child_process';
const ASKED_FOR_LATE = '\0asked-for-late';

/**
 * commander can start another program for a command; ours have none. Loading what starts programs is a tenth of what `gantry get` takes, so it is
 * left until somebody asks.
 */
const commanderStartsNothing: Plugin = {
  name: 'commander starts nothing',
  resolveId: (asked, importer) =>
    asked === STARTS_PROGRAMS && importer?.includes('/node_modules/commander/') === true ? ASKED_FOR_LATE : undefined,
  load: (id) =>
    id === ASKED_FOR_LATE
      ? `export default { spawn: (...told) => process.getBuiltinModule('${STARTS_PROGRAMS}').spawn(...told) };`
      : undefined,
};

/** `gantryd/main.ts` becomes `gantryd.cjs`; a worker keeps its name. */
function entryName(path: string): string {
  return basename(path) === 'main.ts' ? basename(dirname(path)) : basename(path, '.ts');
}

/** The sources that are started as threads or processes of their own, by who starts them. */
const workers = globSync('src/**/*.ts', { cwd: root }).flatMap((path) => {
  const started = readFileSync(join(root, path), 'utf8').matchAll(/workerUrl\(import\.meta\.url, '([^']+)'\)/g);
  return [...started].map(([, name = '']) => join(dirname(path), `${name}.ts`));
});

/**
 * A program, or a worker: what it begins with is one file, which is read quicker than hundreds, and what it comes to only at times (a command of
 * `gantry` each) has files of its own, which are not even read before. All lie in one folder, so that a worker is beside whoever starts it, wherever its source
 * is. CommonJS: Node reads one file of it in half the time that it needs for modules, and loads no more of its own than is asked for.
 *
 * @returns the files of source that it is made of
 */
async function bundle(path: string): Promise<string[]> {
  const name = entryName(path);
  const { output: files } = await build({
    cwd: root,
    input: { [name]: path },
    platform: 'node',
    external: NATIVE,
    plugins: [commanderStartsNothing],
    output: {
      dir: javascript,
      format: 'cjs',
      entryFileNames: '[name].cjs',
      chunkFileNames: `${name}-[name].cjs`,
      comments: false,
      // What several commands need in small pieces is read at once: each file has its price, too.
      codeSplitting: { groups: [{ name: 'shared', test: /\/src\//, minShareCount: 3 }] },
    },
  });
  return files.flatMap((file) => (file.type === 'chunk' ? file.moduleIds : []));
}

async function bundleAll(): Promise<string[]> {
  const programs = ['src/cli/main.ts', 'src/gantryd/main.ts', ...workers];
  const names = programs.map(entryName);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new Error(`build: two entries are called ${twice}`);
  return (await Promise.all(programs.map(bundle))).flat();
}

/** The licences of the packages whose code is in the bundles ask for their texts to go with it. */
function licences(sources: readonly string[]): string {
  const folders = sources.flatMap((path) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []);
  const texts = [...new Set(folders)].sort().map((folder) => {
    const { name, version, license = 'none named' } = readPackage(join(folder, 'package.json'));
    const file = readdirSync(folder).find((found) => /^licen[cs]e/i.test(found));
    // A few packages only name theirs.
    const text = file === undefined ? `Licence: ${license}` : readFileSync(join(folder, file), 'utf8').trim();
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
const sources = await bundleAll();
for (const name of ['bin', 'examples', 'README.md', 'CHANGELOG.md', 'LICENSE']) {
  cpSync(join(root, name), join(target, name), { recursive: true });
}
writeFileSync(join(target, 'THIRD-PARTY-LICENSES'), licences(sources));
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
