import assert from 'node:assert/strict';
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, open, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { listPids, processIdentity, readCmdline } from '../../../src/linux/procfs.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { busyboxRootfs } from '../../support/busybox.ts';
import { eventually, IMAGE, podOf } from '../../support/gantryd.ts';
import { tarOf } from '../../support/tar.ts';
import { TempRoot } from '../../support/temp-root.ts';

const CHECKOUT = fileURLToPath(new URL('../../..', import.meta.url));
const { version, dependencies } = JSON.parse(await readFile(join(CHECKOUT, 'package.json'), 'utf8')) as {
  version: string;
  dependencies: Record<string, string>;
};

/** A small package that ours needs: whoever serves it serves the others. */
function registryAnswers(): boolean {
  const asked = `commander@${dependencies['commander'] ?? 'latest'}`;
  const options = ['--fetch-retries=0', '--fetch-timeout=20000', '--prefer-online'];
  return spawnSync('npm', ['view', asked, 'version', ...options], { cwd: tmpdir() }).status === 0;
}

const skip =
  (process.getuid?.() !== 0 && 'needs root') || (!registryAnswers() && 'needs an npm registry, and none answers');

function succeeds(program: string, args: readonly string[], cwd: string, input = ''): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, { cwd, input, encoding: 'utf8' });
  assert.equal(
    status,
    0,
    `${program} ${args.join(' ')}: ${stdout}${stderr}${error === undefined ? '' : String(error)}`,
  );
  return stdout;
}

describe('the package as npm installs it', { skip }, () => {
  let dir: string;
  let bin: string;
  let root: TempRoot;
  let daemon: ChildProcess | undefined;
  let leaks: LeakCheck;

  before(async () => {
    dir = await realpath(await mkdtemp(join(tmpdir(), 'gantry-package-')));
    root = await TempRoot.make();
    const built = join(dir, 'built');
    const app = join(dir, 'app');
    bin = join(app, 'node_modules/.bin');
    await mkdir(app);
    succeeds(process.execPath, [join(CHECKOUT, 'scripts/build.ts'), built], CHECKOUT);
    const tarball = join(built, `gantry-${version}.tgz`);
    succeeds('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', tarball], app);
  });
  after(async () => {
    daemon?.kill('SIGKILL');
    await root[Symbol.asyncDispose]();
    await rm(dir, { recursive: true });
  });

  const gantry = (args: readonly string[], input = ''): string =>
    succeeds(join(bin, 'gantry'), ['--api', `unix://${root.apiSocket}`, ...args], '/', input);

  test('it has what users need, and nothing of the tests', async () => {
    const installed = join(dir, 'app/node_modules/gantry');
    assert.deepEqual((await readdir(installed)).filter((name) => name !== 'node_modules').sort(), [
      'CHANGELOG.md',
      'LICENSE',
      'README.md',
      'THIRD-PARTY-LICENSES',
      'bin',
      'dist',
      'examples',
      'package.json',
    ]);
    const files = await readdir(join(installed, 'dist'), { recursive: true });
    assert.deepEqual(
      files.filter((path) => /\.ts$|\.test\.js$|(^|\/)(fake|test)-/.test(path)),
      [],
    );
  });

  test('the programs start from node_modules/.bin', () => {
    assert.match(gantry(['version', '--client']), new RegExp(`^Client: gantry ${version} \\(Node v26\\.`));
    assert.match(gantry(['--help']), /^Usage: gantry /);
    assert.equal(succeeds(join(bin, 'gantryd'), ['--version'], '/'), `${version}\n`);
  });

  test('gantryd serves', async () => {
    const path = join(root.dir, 'gantryd.log');
    const log = await open(path, 'a');
    const child = spawn(join(bin, 'gantryd'), root.flags(), { stdio: ['ignore', log.fd, log.fd], cwd: '/' });
    daemon = child;
    await log.close();
    const nodes = await eventually(
      async () => {
        if (child.exitCode !== null) throw new Error(`gantryd ended:\n${await readFile(path, 'utf8')}`);
        const asked = ['--api', `unix://${root.apiSocket}`, 'get', 'nodes'];
        return spawnSync(join(bin, 'gantry'), asked, { encoding: 'utf8' }).stdout;
      },
      (answer) => answer.includes(' Ready '),
      'a node that is ready',
    );
    assert.match(nodes, new RegExp(version.replaceAll('.', '\\.')));
  });

  test('an image is imported', async () => {
    const tar = join(dir, 'busybox.tar');
    await writeFile(tar, await tarOf(await busyboxRootfs()));
    gantry(['image', 'import', '--rootfs', tar, '--entrypoint', '/bin/sh', IMAGE]);
    assert.match(gantry(['image', 'list']), /gantry\/busybox/);
    leaks = await LeakCheck.begin(root.leakRoots([{ path: root.logRoot }]));
  });

  test('a pod runs, and a command in it', () => {
    const pod = podOf('packaged', [{ volumeMounts: [{ name: 'scratch', mountPath: '/scratch' }] }], {
      volumes: [{ name: 'scratch', emptyDir: { medium: 'Memory' } }],
    });
    gantry(['apply', '-f', '-', '--wait', '--timeout', '180s'], JSON.stringify(pod));
    assert.equal(
      gantry(['exec', 'packaged', '--', 'sh', '-c', 'echo $((6 * 7)) > /scratch/x; cat /scratch/x']),
      '42\n',
    );
  });

  test('gantryd and its helper processes run from the package', async () => {
    const programs: string[] = [];
    for (const pid of await listPids()) {
      if (pid !== daemon?.pid && (await processIdentity(pid))?.ppid !== daemon?.pid) continue;
      const words = (await readCmdline(pid).catch(() => undefined)) ?? [];
      programs.push(words.filter((word) => /^\/.*(\/node|\.(cjs|ts))$/.test(word)).join(' '));
    }
    const node = join(dir, `app/node_modules/node-linux-${process.arch}/bin/node`);
    const dist = join(dir, 'app/node_modules/gantry/dist');
    assert.ok(programs.includes(`${node} ${dist}/gantryd.cjs`), programs.join('\n'));
    // A helper process is there only while there is work for it.
    for (const words of programs.filter((found) => found.includes('.ts') || found.includes('.cjs'))) {
      assert.ok(words.startsWith(`${node} ${dist}/`), words);
    }
  });

  test('the pod is deleted, and nothing of it is left', async () => {
    gantry(['delete', 'pod', 'packaged', '--timeout', '180s']);
    assert.doesNotMatch(gantry(['get', 'pods', '-o', 'name']), /packaged/);
    await leaks.assertNone();
  });

  test('gantryd ends when it is asked to', async () => {
    assert.ok(daemon);
    const exit = once(daemon, 'exit');
    daemon.kill('SIGTERM');
    assert.deepEqual(await exit, [0, null]);
    daemon = undefined;
    const errors = (await readFile(join(root.dir, 'gantryd.log'), 'utf8'))
      .split('\n')
      .filter((line) => /"level":"?(error|50)/.test(line));
    assert.deepEqual(errors, []);
  });
});
