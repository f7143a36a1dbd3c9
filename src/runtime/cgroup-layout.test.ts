import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { test } from 'node:test';
import { isKind } from '../lib/errors.ts';
import {
  isOwnCgroup,
  ownCgroups,
  podCgroup,
  podOfCgroup,
  probeCgroup,
  requestedCgroup,
  taskCgroup,
  taskOfCgroup,
} from './cgroup-layout.ts';

const ID = 'cd'.repeat(32);
const cgroupfs = { cgroupParent: '/gantry-x1', instance: 'x1' };
const systemd = { cgroupParent: '/gantry_x1.slice', cgroupDriver: 'systemd', instance: 'x1' } as const;

test('the daemon and its monitors are beside the pods, with systemd in a scope', () => {
  assert.deepEqual(ownCgroups(cgroupfs), { daemon: '/gantry-x1/daemon', monitors: '/gantry-x1/monitors' });
  const scope = '/gantry_x1.slice/gantry_x1-daemon.scope';
  assert.deepEqual(ownCgroups(systemd), { scope, daemon: `${scope}/daemon`, monitors: `${scope}/monitors` });
  for (const settings of [cgroupfs, systemd]) {
    const { daemon, monitors } = ownCgroups(settings);
    const own = [settings.cgroupParent, daemon, monitors, `${monitors}/x`, probeCgroup(settings, 'probe-crun')];
    for (const path of own) assert.equal(isOwnCgroup(settings, path), true, path);
    const others = [podCgroup(settings, ID), `${settings.cgroupParent}x/daemon`, '/kubepods', '/'];
    for (const path of others) assert.equal(isOwnCgroup(settings, path), false, path);
  }
});

test('a pod is found again by the name of its cgroup', () => {
  assert.equal(podCgroup(cgroupfs, 'a-b'), '/gantry-x1/poda-b');
  assert.equal(podCgroup(systemd, 'a-b'), '/gantry_x1.slice/gantry_x1-poda_b.slice');
  for (const settings of [cgroupfs, systemd]) {
    assert.equal(podOfCgroup(settings, basename(podCgroup(settings, ID))), ID);
    for (const name of ['somebody', 'pod', 'daemon', 'gantry_x1-daemon.scope', 'gantry_x1-pod.slice']) {
      assert.equal(podOfCgroup(settings, name), undefined, name);
    }
  }
});

test('a container is found again by the name of its cgroup in its pod', () => {
  assert.equal(taskCgroup('/gantry-x1/pod1', 'cgroupfs', cgroupfs, ID), `/gantry-x1/pod1/${ID}`);
  const scope = taskCgroup('/k.slice/k-pod1.slice', 'systemd', cgroupfs, ID);
  assert.equal(scope, `/k.slice/k-pod1.slice/k-pod1-${ID}.slice/gantry-x1-${ID}.scope`);
  for (const name of [ID, `k-pod1-${ID}.slice`]) assert.equal(taskOfCgroup(name), ID);
  for (const name of ['exec-1', 'k-pod1.slice', `x${ID}`]) assert.equal(taskOfCgroup(name), undefined);
});

test("what a request may name as a pod's cgroup", () => {
  const cases: [settings: typeof cgroupfs | typeof systemd, parent: string, path: string][] = [
    [cgroupfs, '', `/gantry-x1/pod${ID}`],
    [cgroupfs, '/kubepods/burstable/pod1', '/kubepods/burstable/pod1'],
    [cgroupfs, 'a/', '/a'],
    [systemd, '', `/gantry_x1.slice/gantry_x1-pod${ID}.slice`],
    [systemd, 'kubepods-pod1.slice', '/kubepods.slice/kubepods-pod1.slice'],
    [systemd, '/kubepods.slice/kubepods-pod1.slice', '/kubepods.slice/kubepods-pod1.slice'],
  ];
  for (const [settings, parent, path] of cases) assert.equal(requestedCgroup(settings, parent, ID), path);
  const wrong: [settings: typeof cgroupfs | typeof systemd, parent: string, words: RegExp][] = [
    [cgroupfs, '/kubepods.slice/kubepods-pod1.slice', /both must use the same/],
    [cgroupfs, 'kubepods-pod1.slice', /both must use the same/],
    [systemd, '/kubepods/pod1', /both must use the same/],
    [systemd, 'x.scope', /both must use the same/],
    [systemd, '/elsewhere/kubepods-pod1.slice', /is at \/kubepods\.slice\/kubepods-pod1\.slice/],
    [systemd, 'a--b.slice', /no name of a slice/],
    [systemd, '/a.slice/../b.slice', /no cgroup path/],
    [cgroupfs, '/', /no cgroup path/],
    [cgroupfs, '/gantry-x1/daemon', /is Gantry's own/],
    [systemd, 'gantry_x1.slice', /is Gantry's own/],
    [systemd, '/gantry_x1.slice/', /is Gantry's own/],
  ];
  for (const [settings, parent, words] of wrong) {
    assert.throws(
      () => requestedCgroup(settings, parent, ID),
      (error) => isKind(error, 'InvalidArgument') && words.test(String(error)),
      parent,
    );
  }
});

test('where an OCI runtime is tried', () => {
  assert.equal(probeCgroup(cgroupfs, 'probe-crun'), '/gantry-x1/probe-crun');
  assert.equal(probeCgroup(systemd, 'probe-my-crun'), '/gantry_x1.slice/gantry-x1-probe_my_crun.scope');
});
