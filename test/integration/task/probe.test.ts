import assert from 'node:assert/strict';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../../src/lib/clock.ts';
import { isKind } from '../../../src/lib/errors.ts';
import { Cgroups, detectCgroups } from '../../../src/linux/cgroups.ts';
import { probeCandidate, type ProbeDeps, type WorkingRuntime } from '../../../src/runtime/oci/probe.ts';
import { RuntimeHandlers } from '../../../src/runtime/oci/runtime-handlers.ts';
import { RuntimePaths } from '../../../src/runtime/store/paths.ts';
import { needsRoot, op } from './task-fixture.ts';

async function withDeps(fn: (deps: ProbeDeps, dir: string) => Promise<void>): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'gt-'));
  const cgroupHost = await detectCgroups();
  const cgroups = new Cgroups({ clock: systemClock, host: cgroupHost });
  const cgroupParent = `/gantry-probe-test-${process.pid}`;
  await cgroups.ensureParent(cgroupParent);
  const keepAlive = setInterval(() => undefined, 1_000);
  try {
    await fn(
      {
        clock: systemClock,
        cgroupHost,
        cgroupOf: (id) => `${cgroupParent}/${id}`,
        paths: new RuntimePaths(dir, dir),
        removeCgroup: (o, path) => cgroups.remove(o, path),
      },
      dir,
    );
    for (const name of await readdir(dir)) {
      assert.match(name, /^oci-|^fake-/);
      if (!name.startsWith('oci-')) continue;
      // crun keeps the seccomp filters that it has compiled.
      const containers = (await readdir(join(dir, name))).filter((entry) => entry !== '.cache');
      assert.deepEqual(containers, []);
    }
  } finally {
    await cgroups.remove(op, cgroupParent);
    await rm(dir, { recursive: true });
    clearInterval(keepAlive);
  }
}

/** The default handler by that choice, and who was passed over. Throws as a sandbox that asks for it does. */
async function probeOciRuntime(
  o: typeof op,
  choice: string,
  deps: ProbeDeps,
): Promise<WorkingRuntime & Pick<RuntimeHandlers, 'refused'>> {
  const probe = (probeOp: typeof op, candidate: Parameters<typeof probeCandidate>[1]) =>
    probeCandidate(probeOp, candidate, deps);
  const handlers = new RuntimeHandlers({ choice, configured: [], probe });
  await handlers.probe(o);
  return { ...handlers.choose(''), refused: handlers.refused };
}

/** A runtime that notes what it is asked, does what `before` says, and hands on to a real one. */
async function recordingRuntime(
  dir: string,
  realPath: string,
  before = '',
): Promise<{ path: string; calls: () => Promise<string[]> }> {
  const path = join(dir, 'fake-runtime');
  const log = join(dir, 'fake-calls');
  await writeFile(path, `#!/bin/sh\necho "$@" >> ${log}\n${before}\nexec ${realPath} "$@"\n`);
  await chmod(path, 0o755);
  return { path, calls: async () => (await readFile(log, 'utf8')).trimEnd().split('\n') };
}

await test('auto finds one that runs a container, and says why it passed over another', needsRoot, () =>
  withDeps(async (deps) => {
    const { runtime, version, refused } = await probeOciRuntime(op, 'auto', deps);
    assert.ok(['crun', 'runc'].includes(runtime.name));
    assert.match(version, new RegExp(runtime.name));
    if (runtime.name === 'runc') assert.equal(refused[0]?.name, 'crun');
    for (const { reason } of refused) assert.notEqual(reason, '');
  }),
);

await test(
  'none is asked anything without a root of its own: crun makes its default one at each call, a mere --version too',
  needsRoot,
  () =>
    withDeps(async (deps, dir) => {
      const { runtime } = await probeOciRuntime(op, 'auto', deps);
      const { path, calls } = await recordingRuntime(dir, runtime.path);
      assert.match((await probeOciRuntime(op, path, deps)).version, new RegExp(runtime.name));
      const said = await calls();
      assert.ok(said.some((call) => call.endsWith('--version')));
      for (const call of said) assert.ok(call.startsWith(`--root ${dir}/oci-`), call);
    }),
);

await test('one that fails or is missing: the reason is in the error, nothing is left', needsRoot, () =>
  withDeps(async (deps, dir) => {
    const path = join(dir, 'fake-runtime');
    await writeFile(path, '#!/bin/sh\necho \'{"level":"error","msg":"no luck today"}\' >&2\nexit 1\n');
    await chmod(path, 0o755);
    await assert.rejects(probeOciRuntime(op, path, deps), (error: Error) => {
      assert.ok(isKind(error, 'Unavailable'));
      assert.match(error.message, /fake-runtime: no luck today/);
      return true;
    });
    await assert.rejects(probeOciRuntime(op, '/bin/true', deps), /\/bin\/true: it ended with success and ran nothing/);
    await assert.rejects(probeOciRuntime(op, 'no-such-runtime', deps), /no-such-runtime: not installed/);
    await assert.rejects(probeOciRuntime(op, '/no/such/runtime', deps), /no such program/);
  }),
);

await test('a probe that was killed is taken away by the next one', needsRoot, () =>
  withDeps(async (deps, dir) => {
    const { runtime } = await probeOciRuntime(op, 'auto', deps);
    await mkdir(join(dir, `probe-${runtime.name}`, 'rootfs', 'usr'), { recursive: true });
    assert.equal((await probeOciRuntime(op, runtime.name, deps)).runtime.name, runtime.name);
  }),
);

await test(
  'an OCI runtime whose delete hangs holds no start up, after a probe that was killed neither',
  needsRoot,
  () =>
    withDeps(async (deps, dir) => {
      const { runtime } = await probeOciRuntime(op, 'auto', deps);
      const hang = 'case "$*" in *" delete "*) sleep 1000 ;; esac';
      const { path, calls } = await recordingRuntime(dir, runtime.path, hang);
      const deletes = async (): Promise<number> => (await calls()).filter((call) => call.includes(' delete ')).length;
      await probeOciRuntime(op, path, deps);
      assert.equal(await deletes(), 0, 'what has ended well is gone');
      await mkdir(join(dir, 'probe-fake-runtime', 'rootfs', 'usr'), { recursive: true });
      await probeOciRuntime(op, path, deps);
      assert.equal(await deletes(), 1);
    }),
);
