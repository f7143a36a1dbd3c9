import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { execFile } from '../../../src/linux/exec.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { isSystemdHere } from '../../../src/linux/systemd-units.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { TempRoot } from '../../support/temp-root.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const onSystemd = (await isSystemdHere()) && 'systemd runs this machine';
const DAEMON = new URL('../../../bin/gantryd', import.meta.url).pathname;
/** For a daemon that hangs instead of refusing; it refuses at once. */
const PATIENCE_MS = 180_000;

describe('settings that cannot work', { skip }, () => {
  let root: TempRoot;
  let leaks: LeakCheck;
  before(async () => {
    root = await TempRoot.make();
    await writeFile(join(root.dir, 'file'), '');
    leaks = await LeakCheck.begin(root.leakRoots());
  });
  after(async () => {
    await root[Symbol.asyncDispose]();
  });

  async function refused(flags: readonly string[], words: RegExp): Promise<void> {
    const op = { signal: AbortSignal.timeout(PATIENCE_MS), log: silentLog };
    const { code, stderr } = await execFile(op, DAEMON, [...root.flags(), '--log-level=error', ...flags]);
    assert.equal(code, 1, stderr);
    assert.match(stderr, words);
    assert.match(stderr, /^gantryd: [^\n]+\n$/, 'one line');
  }

  for (const flag of ['root', 'state', 'netns-dir', 'pods-dir', 'log-root']) {
    test(`--${flag} where no folder can be made`, async () => {
      await refused([`--${flag}=/proc/no-such-folder/x`], new RegExp(`--${flag}: the file system at /proc/`));
    });
  }

  test('a file where a folder should be', async () => {
    const file = join(root.dir, 'file');
    const words = `: ${file} is there and is no folder: name another`;
    await refused([`--root=${file}`], new RegExp(`--root${words}`));
    await refused([`--state=${file}/below`], new RegExp(`--state${words}`));
  });

  test('an empty value, which is not the default', async () => {
    await refused(['--root='], /--root: the value is empty/);
    await refused(['--config='], /--config: the value is empty/);
  });

  test('the systemd cgroup driver where systemd does not run the machine', { skip: onSystemd }, async () => {
    const words = /--cgroup-driver systemd: systemd does not run this machine$/m;
    await refused(['--cgroup-driver=systemd'], words);
    await refused(['--cgroup-driver=auto', '--cgroup-parent=gantry-x.slice'], words);
    await writeFile(join(root.data, 'cgroup-driver'), 'systemd\n');
    await refused(['--cgroup-driver=auto'], /systemd does not run this machine; \S+ has had it: /);
    await rm(join(root.data, 'cgroup-driver'));
    await refused(
      ['--cgroup-driver=cgroupfs', '--cgroup-parent=gantry.slice'],
      /--cgroup-parent: gantry\.slice is a unit/,
    );
  });

  test('a socket where no folder can be made', async () => {
    await refused(['--cri-listen=unix:///proc/no-such-folder/x.sock'], /--cri-listen: the file system at \/proc\//);
  });

  test('a root folder of a file system that takes no files', async () => {
    await refused(['--root=/proc'], /--root: \/proc cannot be used: /);
  });

  test('an OCI runtime that ends with success and runs nothing', async () => {
    await refused(['--oci-runtime=/bin/true'], /no usable OCI runtime: \/bin\/true: .*ran nothing/);
    await refused(['--oci-runtime=/bin/echo'], /no usable OCI runtime: \/bin\/echo: .*ran nothing/);
    await refused(['--oci-runtime=crum'], /no usable OCI runtime: crum: not installed/);
  });

  test('nothing that runs, is mounted or is accounted is left of them', async () => {
    await leaks.assertNone({ only: ['processes', 'mounts', 'cgroups', 'network namespaces'] });
  });
});
