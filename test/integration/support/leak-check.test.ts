import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, mkdir, mkdtemp, readdir, readFile, rmdir, symlink, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { execFile } from '../../../src/linux/exec.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { detectCgroups } from '../../../src/linux/cgroups.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { TempRoot } from '../../support/temp-root.ts';

const op = { signal: new AbortController().signal, log: silentLog };
const root = { skip: process.getuid?.() !== 0 && 'needs root' };

async function run(file: string, ...args: string[]): Promise<void> {
  const { code, stderr } = await execFile(op, file, args);
  assert.equal(code, 0, stderr);
}

async function leaks(check: LeakCheck): Promise<string> {
  return await check.assertNone({ settleMs: 0 }).then(
    () => '',
    (error: unknown) => (error as Error).message,
  );
}

test('each kind of leftover is found and named, and taken away with the root', root, async () => {
  const place = await TempRoot.make();
  const foreign = await mkdtemp(join(tmpdir(), 'gantry-foreign-'));
  await writeFile(join(foreign, 'kept'), 'x');
  const check = await LeakCheck.begin(place.leakRoots());
  await check.assertNone({ settleMs: 0 });

  const child = spawn('/bin/sh', ['-c', 'read line', place.instance], { stdio: ['pipe', 'ignore', 'ignore'] });
  await mkdir(join(place.data, 'pods/uid/volumes'), { recursive: true });
  await run('mount', '--bind', foreign, join(place.data, 'pods/uid/volumes'));
  await run('mount', '-t', 'tmpfs', 'tmpfs', join(place.data, 'pods/uid/volumes'));
  await writeFile(join(place.netnsDir, `gantry-${place.instance}-0`), '');
  await mkdir(join(place.cniDataDir, 'net'));
  await writeFile(join(place.cniDataDir, 'net', '10.9.8.7'), 'container\neth0');
  await writeFile(join(place.cniDataDir, 'net', 'last_reserved_ip.0'), '10.9.8.7');
  await run('ip', 'link', 'add', `br${place.instance}`, 'type', 'bridge');
  const rule = [
    'POSTROUTING',
    '-s',
    '192.0.2.1/32',
    '-m',
    'comment',
    '--comment',
    `of ${place.instance}`,
    '-j',
    'RETURN',
  ];
  await run('iptables', '-t', 'nat', '-A', ...rule);
  const host = await detectCgroups();
  const tree = host.v1.find((candidate) => candidate.controllers.includes('pids'))?.mountPoint;
  const cgroup = join(tree ?? host.unified?.mountPoint ?? '', place.cgroupParent, 'pod');
  await mkdir(cgroup, { recursive: true });

  const found = await leaks(check);
  for (const line of [
    `  + ${child.pid ?? 0} sh S: /bin/sh -c read line ${place.instance}`,
    `  + ${join(place.data, 'pods/uid/volumes')} (tmpfs tmpfs /)`,
    `  + ${join(place.netnsDir, `gantry-${place.instance}-0`)}`,
    `  + ${join(place.cniDataDir, 'net/10.9.8.7')}: container eth0`,
    `  + br${place.instance}`,
    `  + ${cgroup}`,
    `  + iptables nat: -A POSTROUTING -s 192.0.2.1/32 -m comment --comment "of ${place.instance}" -j RETURN`,
    `  + ${join(place.data, 'pods/uid')}/`,
  ]) {
    assert.ok(found.split('\n').includes(line), `${line}\nis not in\n${found}`);
  }
  assert.equal(found.includes('last_reserved_ip'), false);
  assert.equal(
    found.includes(foreign),
    found.includes(`(ext4`) && found.includes(foreign),
    'a foreign folder is listed',
  );

  await place[Symbol.asyncDispose]();
  assert.deepEqual(await readdir(foreign), ['kept'], 'what was mounted below the root was deleted');
  assert.equal(await readFile(join(foreign, 'kept'), 'utf8'), 'x');
  await assert.rejects(access(place.dir));
  await assert.rejects(access(cgroup));
  await assert.rejects(access(`/sys/class/net/br${place.instance}`));
  assert.notEqual((await execFile(op, 'iptables', ['-t', 'nat', '-C', ...rule])).code, 0);
  assert.notEqual(child.exitCode ?? child.signalCode, null);
  await unlink(join(foreign, 'kept'));
  await rmdir(foreign);
});

test("what others do beside it is nobody's leak", root, async () => {
  await using place = await TempRoot.make();
  await using other = await TempRoot.make();
  const check = await LeakCheck.begin(place.leakRoots());
  const child = spawn('sleep', ['1000'], { stdio: 'ignore' });
  await writeFile(join(other.netnsDir, 'x'), '');
  await run('ip', 'link', 'add', `br${other.instance}`, 'type', 'bridge');
  await run('mount', '-t', 'tmpfs', 'tmpfs', other.podsDir);
  await check.assertNone({ settleMs: 0 });
  child.kill();
});

test('what goes within the given time is no leak, what went is named', root, async () => {
  await using place = await TempRoot.make();
  const file = join(place.state, 'there');
  await writeFile(file, '');
  const check = await LeakCheck.begin(place.leakRoots());
  await unlink(file);
  assert.equal(await leaks(check), `not as it was before:\nfiles and folders:\n  - ${file}`);
  const settled = check.assertNone();
  await writeFile(file, '');
  await settled;
});

test('what takes the rules of the last pod away may end after the first look, and nothing else', root, async () => {
  const place = await TempRoot.make();
  const iptables = join(place.dir, 'iptables');
  await symlink('/bin/sh', iptables);
  for (const [program, went] of [
    [iptables, /^$/],
    ['/bin/sh', /processes:\n {2}- \d+ sh /],
  ] as const) {
    const child = spawn(program, ['-c', 'read line', place.instance], { stdio: ['pipe', 'ignore', 'ignore'] });
    const check = await LeakCheck.begin(place.leakRoots());
    assert.match(await leaks(check), /^$/);
    const ended = once(child, 'exit');
    child.stdin.end();
    await ended;
    assert.match(await leaks(check), went);
  }
  await place[Symbol.asyncDispose]();
});
