import assert from 'node:assert/strict';
import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { PodSandboxState } from '../../../src/cri/gen/api.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import type { DoctorReport } from '../../../src/lib/doctor.ts';
import { Cgroups, detectCgroups } from '../../../src/linux/cgroups.ts';
import { Gantryd, op, podOf } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';

const skip = process.getuid?.() !== 0 && 'needs root';

test('pods that were made under other settings have all that they need, and keep it', { skip }, async () => {
  await using made = await Gantryd.withImage();
  const { root } = made;
  const other = `u${root.instance.slice(1)}`;
  const leaks = await LeakCheck.begin(root.leakRoots());
  await made.apply(podOf('kept', [{}]), '--wait');
  const pids = await made.pids('kept');
  await made.end('SIGTERM');

  const [netns, state] = [join(root.dir, 'netns-link'), join(root.dir, 'state-link')];
  await symlink(root.netnsDir, netns);
  await symlink(root.state, state);
  // The same places by other names; then another place for what is new.
  for (const flags of [
    [`--netns-dir=${netns}`, `--state=${state}`],
    [`--cgroup-parent=/gantry-${other}`, `--netns-dir=${root.netnsDir}`],
  ]) {
    await using daemon = await Gantryd.make({ root, flags });
    await daemon.start();
    await daemon.ready('kept');
    for (const fix of [[], ['--fix']]) {
      const { code, stdout } = await daemon.cli(['doctor', '-o', 'json', ...fix]);
      const { findings } = JSON.parse(stdout) as DoctorReport;
      assert.deepEqual(
        findings.filter(({ problem }) => problem !== 'foreign'),
        [],
      );
      assert.equal(code, 0);
    }
    const { items } = await daemon.cri.runtime.listPodSandbox(op, { filter: undefined });
    assert.deepEqual(
      items.map((item) => item.state),
      [PodSandboxState.SANDBOX_READY],
    );
    assert.deepEqual(await daemon.pids('kept'), pids);
    assert.equal(await daemon.gantry('exec', 'kept', '--', 'echo', 'well'), 'well\n');
    assert.equal(await daemon.end('SIGTERM'), 0);
  }
  const cgroups = new Cgroups({ clock: systemClock, host: await detectCgroups() });
  assert.equal(await cgroups.exists(`/gantry-${other}`), false);

  await made.start();
  await made.ready('kept');
  assert.deepEqual(await made.pids('kept'), pids);
  await made.gantry('delete', 'pod', 'kept');
  await leaks.assertNone({
    only: ['processes', 'mounts', 'network namespaces', 'CNI addresses', 'links', 'iptables rules', 'cgroups'],
  });
  await made.end('SIGTERM');
});
