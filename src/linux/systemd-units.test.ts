import assert from 'node:assert/strict';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { isKind, type ErrorKind } from '../lib/errors.ts';
import { silentLog } from '../lib/log.ts';
import { SystemdUnits } from './systemd-units.ts';

const op = { signal: new AbortController().signal, log: silentLog };
const MANAGER = 'org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager';
const BUSCTL = `busctl --system --json=short --timeout=30 -- call ${MANAGER}`;

interface Fake extends AsyncDisposable {
  readonly units: SystemdUnits;
  /** What was called, a line each. */
  calls(): Promise<string[]>;
}

/** Programs of systemd's that note how they are called and answer this. */
async function fake({ stdout = '', stderr = '', code = 0 } = {}): Promise<Fake> {
  const dir = await mkdtemp(join(tmpdir(), 'gu-'));
  await writeFile(join(dir, 'stdout'), stdout);
  await writeFile(join(dir, 'stderr'), stderr);
  for (const name of ['busctl', 'systemctl']) {
    const script = `#!/bin/sh
cd ${dir}
echo "${name} $* in $LC_ALL" >> calls
cat stdout
cat stderr >&2
exit ${String(code)}
`;
    await writeFile(join(dir, name), script);
    await chmod(join(dir, name), 0o755);
  }
  return {
    units: new SystemdUnits([dir]),
    calls: async () => (await readFile(join(dir, 'calls'), 'utf8')).trimEnd().split('\n'),
    [Symbol.asyncDispose]: () => rm(dir, { recursive: true }),
  };
}

test('a slice is made by a call of the manager', async () => {
  await using systemd = await fake({ stdout: '{"type":"o","data":["/org/freedesktop/systemd1/job/1"]}' });
  await systemd.units.startSlice(op, 'g-pod1.slice', {
    description: 'A pod',
    properties: [['MemoryMax', 't', '5']],
  });
  assert.deepEqual(await systemd.calls(), [
    `${BUSCTL} StartTransientUnit ssa(sv)a(sa(sv)) g-pod1.slice fail 2 Description s A pod MemoryMax t 5 0 in C`,
  ]);
});

test('a scope is the process that is put into it', async () => {
  await using systemd = await fake();
  await systemd.units.startScope(op, 'g.scope', { slice: 'g.slice', description: 'Us', pid: 7 });
  const [call = ''] = await systemd.calls();
  for (const words of [
    'g.scope fail 7 ',
    'Slice s g.slice',
    'Delegate b true',
    'DefaultDependencies b false',
    'PIDs au 1 7 0',
  ]) {
    assert.ok(call.includes(words), `${words} in ${call}`);
  }
});

test('properties are set until the unit goes, and a stop waits', async () => {
  await using systemd = await fake();
  await systemd.units.setProperties(op, 'g.slice', [['AllowedCPUs', 'ay', '1', '3']]);
  await systemd.units.stop(op, 'a.slice', 'b.scope');
  assert.deepEqual(await systemd.calls(), [
    `${BUSCTL} SetUnitProperties sba(sv) g.slice true 1 AllowedCPUs ay 1 3 in C`,
    'systemctl stop --quiet -- a.slice b.scope in C',
  ]);
});

test('units are listed by patterns', async () => {
  const units = [
    ['g-1.scope', 'words', 'loaded', 'active', 'running', '', '/path', 0, '', '/'],
    ['g-2.slice', 'words', 'loaded', 'failed', 'failed', '', '/path', 0, '', '/'],
  ];
  await using systemd = await fake({ stdout: JSON.stringify({ type: 'a(ssssssouso)', data: [units] }) });
  assert.deepEqual(await systemd.units.list(op, 'g-*'), [
    { name: 'g-1.scope', activeState: 'active' },
    { name: 'g-2.slice', activeState: 'failed' },
  ]);
  assert.deepEqual(await systemd.calls(), [`${BUSCTL} ListUnitsByPatterns asas 0 1 g-* in C`]);
});

test('its version is one value', async () => {
  await using systemd = await fake({ stdout: '{"type":"s","data":"257.13-1"}' });
  assert.equal(await systemd.units.version(op), '257.13-1');
});

test("systemd's words say what a caller can do", async () => {
  const cases: [stderr: string, kind: ErrorKind][] = [
    ['Call failed: Unit a.scope not loaded.', 'NotFound'],
    ['Call failed: Unit a.scope not found.', 'NotFound'],
    ['Call failed: Unit a.slice was already loaded or has a fragment file.', 'AlreadyExists'],
    ['Call failed: Unit a.slice already exists.', 'AlreadyExists'],
    ['Failed to connect to system bus: No such file or directory', 'Unavailable'],
    ['', 'Unavailable'],
  ];
  for (const [stderr, kind] of cases) {
    await using systemd = await fake({ stderr, code: 1 });
    await assert.rejects(systemd.units.setProperties(op, 'a.scope', []), (error) => isKind(error, kind), stderr);
  }
});

test('what is not there has stopped; what does not stop is said', async () => {
  await using gone = await fake({ stderr: 'Failed to stop a.scope: Unit a.scope not loaded.', code: 5 });
  await gone.units.stop(op, 'a.scope');
  await using stuck = await fake({ stderr: 'Job for a.scope canceled.', code: 1 });
  await assert.rejects(stuck.units.stop(op, 'a.scope'), /Job for a\.scope canceled/);
});

test('without its programs nothing can be asked', async () => {
  const units = new SystemdUnits(['/nonexistent']);
  await assert.rejects(
    units.version(op),
    (error) => isKind(error, 'Unavailable') && /not installed/.test(String(error)),
  );
});
