import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmod, cp, mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';

const BIN = new URL('../../bin', import.meta.url).pathname;
const NODE = `node-linux-${process.arch}/bin/node`;

/** Gantry's launchers in `place`, and a Node in `nodeModules` that prints what it is given. Both are below the folder returned. */
async function layOut(t: TestContext, place: string, nodeModules: string | undefined): Promise<string> {
  const dir = await realpath(await mkdtemp(join(tmpdir(), 'gantry-launch-')));
  t.after(() => rm(dir, { recursive: true }));
  await mkdir(join(dir, place), { recursive: true });
  await cp(BIN, join(dir, place, 'bin'), { recursive: true });
  if (nodeModules !== undefined) {
    const node = join(dir, nodeModules, NODE);
    await mkdir(dirname(node), { recursive: true });
    await writeFile(node, '#!/bin/sh\nshift\necho "$0" "$@"\n');
    await chmod(node, 0o755);
  }
  return dir;
}

function launched(program: string): { readonly stdout: string; readonly stderr: string } {
  return spawnSync(program, ['version', 'two words'], { encoding: 'utf8' });
}

const LAYOUTS: readonly (readonly [what: string, place: string, nodeModules: string])[] = [
  ['a checkout or a global install: in its own node_modules', 'gantry', 'gantry/node_modules'],
  ['a local install: hoisted beside the package', 'app/node_modules/gantry', 'app/node_modules'],
  ['a dependency of a dependency', 'app/node_modules/other/node_modules/gantry', 'app/node_modules'],
  [
    'a store of linked packages',
    'app/node_modules/.store/gantry@1/node_modules/gantry',
    'app/node_modules/.store/gantry@1/node_modules',
  ],
];

for (const [what, place, nodeModules] of LAYOUTS) {
  test(`the Node that comes with the package is found in ${what}`, async (t) => {
    const dir = await layOut(t, place, nodeModules);
    await mkdir(join(dir, '.bin'));
    const link = join(dir, '.bin/gantry');
    await symlink(join('..', place, 'bin/gantry'), link);
    const entry = join(dir, place, 'dist/cli.cjs');
    assert.equal(launched(link).stdout, `${join(dir, nodeModules, NODE)} ${entry} version two words\n`);
  });
}

test('where Nodes for several machines are installed, the one for this machine is run', async (t) => {
  const dir = await layOut(t, 'gantry', 'gantry/node_modules');
  const other = join(dir, 'gantry/node_modules', `node-linux-${process.arch === 'x64' ? 'arm64' : 'x64'}/bin`);
  await mkdir(other, { recursive: true });
  await writeFile(join(other, 'node'), '#!/bin/sh\necho the other\n', { mode: 0o755 });
  const { stdout } = launched(join(dir, 'gantry/bin/gantry'));
  assert.match(stdout, new RegExp(`^${join(dir, 'gantry/node_modules', NODE)} `));
});

test('a Node in a folder above that is no node_modules of ours is not run', async (t) => {
  const dir = await layOut(t, 'shared/gantry', 'shared/node_modules');
  await cp(
    join(dir, 'shared/node_modules', `node-linux-${process.arch}`),
    join(dir, 'shared', `node-linux-${process.arch}`),
    {
      recursive: true,
    },
  );
  const { stdout, stderr } = launched(join(dir, 'shared/gantry/bin/gantry'));
  assert.equal(stdout, '');
  assert.match(stderr, /install gantry again, with npm's optional dependencies/);
});

test('a checkout that is not set up says how', async (t) => {
  const dir = await layOut(t, 'gantry/src', undefined);
  await cp(BIN, join(dir, 'gantry/bin'), { recursive: true });
  assert.match(launched(join(dir, 'gantry/bin/gantry')).stderr, /not set up yet .* run 'npm start'/);
});

test('in a checkout what the stripping of types made is kept, and its WebAssembly is not optimized', async (t) => {
  const dir = await layOut(t, 'gantry', 'gantry/node_modules');
  await mkdir(join(dir, 'gantry/src/cli'), { recursive: true });
  await writeFile(join(dir, 'gantry/src/cli/main.ts'), '');
  const node = join(dir, 'gantry/node_modules', NODE);
  await writeFile(node, '#!/bin/sh\nprintf "%s\\n" "$NODE_COMPILE_CACHE" "$@"\n');
  const env = { ...process.env };
  delete env['NODE_COMPILE_CACHE'];
  const { stdout } = spawnSync(join(dir, 'gantry/bin/gantry'), ['version'], { encoding: 'utf8', env });
  const [cache, ...argv] = stdout.trimEnd().split('\n');
  assert.equal(cache, join(dir, 'gantry/node_modules/.cache/gantry'));
  assert.deepEqual(argv.slice(-3), ['--liftoff-only', join(dir, 'gantry/src/cli/main.ts'), 'version']);
});
