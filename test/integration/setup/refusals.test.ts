import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';

/**
 * What `npm start` says on a machine that it cannot start on, and that it has changed nothing by then. scripts/setup.sh runs in an
 * empty checkout with a PATH of its own, on which the programs that would change something only note that they were called.
 */
const SETUP = new URL('../../../scripts/setup.sh', import.meta.url).pathname;
const needsRoot = { skip: process.getuid?.() !== 0 && 'needs root' };
const HARMLESS = 'awk cat chmod cut date dirname grep head ls mktemp readlink rm sed sh tail touch tr uname'.split(' ');
const BEFORE_ALL = 'node npm apt-get dpkg-query id modprobe'.split(' ');

type Program = 'node' | 'npm' | 'apt-get' | 'dpkg-query' | 'id';

/** Body of a shell script for each program that is there. */
const FRESH: Readonly<Record<Program, string>> = {
  node: 'case $1 in -p) echo 20 ;; *) echo v20.19.2 ;; esac',
  npm: 'echo "npm $*" >>"$CALLS"; echo "npm says no"; exit 1',
  'apt-get': 'echo "apt-get $*" >>"$CALLS"; echo "E: apt says no"; exit 100',
  'dpkg-query': 'exit 1',
  id: 'echo 0',
};

interface Outcome {
  readonly code: number | null;
  readonly stderr: string;
  readonly calls: string;
  /** What lies in the checkout afterwards. */
  readonly left: readonly string[];
}

interface Machine {
  /** Replaces programs; undefined takes one away. */
  readonly programs?: Readonly<Partial<Record<Program, string | undefined>>>;
  /** Run before, in namespaces of its own: mounts and network of this machine are out of reach. */
  readonly before?: string;
}

async function setUp(t: TestContext, machine: Machine, purpose = 'start'): Promise<Outcome> {
  const dir = await mkdtemp(join(tmpdir(), 'gantry-setup-'));
  t.after(() => rm(dir, { recursive: true }));
  const [bin, checkout, calls] = [join(dir, 'bin'), join(dir, 'checkout'), join(dir, 'calls')];
  await mkdir(join(checkout, 'scripts'), { recursive: true });
  await mkdir(bin);
  await copyFile(SETUP, join(checkout, 'scripts/setup.sh'));
  await writeFile(calls, '');
  const paths = (process.env['PATH'] ?? '').split(':');
  for (const name of HARMLESS) {
    const found = spawnSync('/bin/sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).stdout.trim();
    assert.notEqual(found, '', `${name} is on none of ${paths.join(', ')}`);
    await symlink(found, join(bin, name));
  }
  const programs: Record<string, string | undefined> = { modprobe: 'exit 1', ...FRESH, ...machine.programs };
  for (const name of BEFORE_ALL) {
    const body = programs[name];
    if (body !== undefined) await writeFile(join(bin, name), `#!/bin/sh\n${body}\n`, { mode: 0o755 });
  }
  const run = `PATH=${bin} CALLS=${calls} exec sh ${join(checkout, 'scripts/setup.sh')} ${purpose}`;
  const argv =
    machine.before === undefined
      ? ['sh', '-c', run]
      : ['unshare', '--mount', '--net', 'sh', '-ec', `dir=${dir}\n${machine.before}\n${run}`];
  const { status, stderr } = spawnSync(argv[0] ?? '', argv.slice(1), { encoding: 'utf8' });
  const called = spawnSync('cat', [calls], { encoding: 'utf8' }).stdout;
  return { code: status, stderr, calls: called, left: (await readdir(checkout)).sort() };
}

function refused(outcome: Outcome, words: RegExp): void {
  assert.equal(outcome.code, 1);
  assert.match(outcome.stderr, words);
  assert.match(outcome.stderr, /^gantry: [^\n]+\n$/, 'one line');
  assert.equal(outcome.calls, '', 'nothing that changes the machine was called');
  assert.deepEqual(outcome.left, ['scripts']);
}

test('no Node', async (t) => {
  refused(await setUp(t, { programs: { node: undefined } }), /Node\.js is missing.*apt-get install nodejs npm/);
});

test('a Node that is too old', async (t) => {
  const node = 'case $1 in -p) echo 16 ;; *) echo v16.20.0 ;; esac';
  refused(await setUp(t, { programs: { node } }), /Node\.js 18 or newer.*found v16\.20\.0/);
});

test('no npm', async (t) => {
  refused(await setUp(t, { programs: { npm: undefined } }), /npm is missing.*apt-get install npm/);
});

test('not root', async (t) => {
  refused(await setUp(t, { programs: { id: 'echo 1000' } }), /root is needed.*sudo npm start/);
});

test('not root, npm test: the npm packages alone', async (t) => {
  const { calls } = await setUp(t, { programs: { id: 'echo 1000' } }, 'test');
  assert.match(calls, /^npm ci [^\n]*\n$/);
});

test('packages are missing and there is no apt-get', needsRoot, async (t) => {
  const outcome = await setUp(t, { programs: { 'apt-get': undefined }, before: ':' });
  refused(outcome, /apt-get is missing.*by hand first:.* crun .*conmon/);
});

test('apt-get fails: its last words, and nothing after it', needsRoot, async (t) => {
  const { code, stderr, calls, left } = await setUp(t, { before: ':' });
  assert.equal(code, 1);
  assert.match(stderr, /E: apt says no\ngantry: apt-get could not install: [^\n]+\n$/);
  assert.equal(calls, 'apt-get update\n');
  assert.deepEqual(left, ['scripts']);
});

test('npm fails: its last words', needsRoot, async (t) => {
  const present = 'echo install ok installed';
  const { code, stderr, calls } = await setUp(t, { programs: { 'dpkg-query': present }, before: ':' });
  assert.equal(code, 1);
  assert.match(stderr, /npm says no\ngantry: npm ci failed [^\n]+\n$/);
  assert.match(calls, /^npm ci [^\n]*\n$/);
});

test('a kernel without overlayfs', needsRoot, async (t) => {
  const before =
    'grep -vw overlay /proc/filesystems >$dir/filesystems\nmount --bind $dir/filesystems /proc/filesystems';
  refused(await setUp(t, { before }), /no overlayfs.*modprobe overlay/);
});

test('no cgroups', needsRoot, async (t) => {
  refused(await setUp(t, { before: 'umount -l /sys/fs/cgroup' }), /no usable cgroups.*mount -t cgroup2/);
});

test('cgroups without a controller', needsRoot, async (t) => {
  const before = `umount -l /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
echo cpuset cpu io pids >$dir/controllers
mount --bind $dir/controllers /sys/fs/cgroup/cgroup.controllers`;
  refused(await setUp(t, { before }), /no usable cgroups: the memory controller is missing/);
});

test('cgroups that are mounted read-only', needsRoot, async (t) => {
  const before = `for at in $(sed -n 's/^[^ ]* \\([^ ]*\\) cgroup2\\{0,1\\} .*/\\1/p' /proc/mounts); do
  mount -o remount,bind,ro $at
done`;
  refused(await setUp(t, { before }), /no usable cgroups.*read-only/);
});

test('the port of the example is taken', needsRoot, async (t) => {
  // A listener in the network namespace of the test alone; no gantryd's socket is in sight.
  const listen = `require('net').createServer().listen(8080, () => require('fs').writeFileSync('$dir/listening', ''));
    setTimeout(() => process.exit(), 60000)`;
  const before = `ip link set lo up
mount -t tmpfs none /run
${process.execPath} -e "${listen}" </dev/null >/dev/null 2>&1 &
until [ -e $dir/listening ]; do sleep 0.1; done`;
  refused(await setUp(t, { before }), /port 8080.*is taken/);
});
