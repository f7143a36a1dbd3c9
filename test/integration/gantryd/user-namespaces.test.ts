import assert from 'node:assert/strict';
import { chmod, readFile, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { Gantryd, IMAGE, op, podOf } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const IDS_PER_POD = 65_536;

describe('pods with users of their own (hostUsers: false)', { skip }, () => {
  let daemon: Gantryd;
  let leaks: LeakCheck;
  let can: boolean;

  before(async () => {
    daemon = await Gantryd.withImage();
    // Passed through by those whom root inside is, as the folders above /run/gantry can be.
    const above = dirname(daemon.root.dir);
    if (((await stat(above)).mode & 0o001) === 0) await chmod(above, 0o711);
    const { runtimeHandlers } = await daemon.cri.runtime.status(op, { verbose: false });
    can = runtimeHandlers.find(({ name }) => name === '')?.features?.userNamespaces === true;
    leaks = await LeakCheck.begin(daemon.root.leakRoots([{ path: daemon.root.logRoot }]));
  });
  after(async () => {
    await daemon[Symbol.asyncDispose]();
  });
  afterEach(async () => {
    await daemon.endPods();
  });

  /** The first of a pod's ids on the host. */
  const firstIdOf = async (pod: string): Promise<number> => {
    const [, hostId, length] = (await daemon.shell(pod, 'cat /proc/self/uid_map')).split(/\s+/).map(Number);
    assert.equal(length, IDS_PER_POD);
    assert.ok(hostId !== undefined && hostId >= IDS_PER_POD && hostId % IDS_PER_POD === 0);
    return hostId;
  };

  test('where the OCI runtime has no user namespaces, the pod waits and says so', async (t) => {
    if (can) {
      t.skip('this OCI runtime has user namespaces');
      return;
    }
    await daemon.create(podOf('refused', [{}], { hostUsers: false }));
    await daemon.eventWhen('refused', 'FailedCreatePodSandBox', /hostUsers: false needs user namespaces.*runc 1\.2/);
    const { stdout, code } = await daemon.cli(
      ['apply', '-f', '-'],
      JSON.stringify(podOf('x', [{}], { hostUsers: false, hostPID: true })),
    );
    assert.deepEqual([code, stdout], [1, '']);
    await daemon.delete('refused');
    await daemon.gone('refused');
    await leaks.assertNone();
  });

  test('root inside is nobody outside; volumes are the pod’s; a kill of the daemon changes nothing', async (t) => {
    if (!can) {
      t.skip('needs runc 1.2 or crun 1.9, and a kernel that maps layers: name one by GANTRY_TEST_OCI_RUNTIME');
      return;
    }
    await daemon.apply({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'conf' }, data: { key: 'value' } });
    const volumes = [
      { name: 'disk', emptyDir: {} },
      { name: 'memory', emptyDir: { medium: 'Memory' } },
      { name: 'conf', configMap: { name: 'conf' } },
      { name: 'image', image: { reference: IMAGE, pullPolicy: 'Never' } },
    ];
    const volumeMounts = volumes.map(({ name }) => ({ name, mountPath: `/${name}` }));
    const own = { hostUsers: false, volumes };
    await daemon.create(podOf('one', [{ volumeMounts }], own));
    await daemon.create(podOf('two', [{ volumeMounts, securityContext: { runAsUser: 1000 } }], own));
    const uid = (await daemon.ready('one')).metadata.uid;
    await daemon.ready('two');

    const first = await firstIdOf('one');
    assert.notEqual(await firstIdOf('two'), first);
    assert.equal(await daemon.shell('one', 'id -u'), '0');
    assert.equal(await daemon.shell('two', 'id -u'), '1000');
    const pid = (await daemon.pids('one')).get('main') ?? 0;
    assert.equal((await stat(`/proc/${String(pid)}`)).uid, first);
    const paths = ['/', '/disk', '/memory', '/conf/key', '/image/bin', '/etc/hosts', '/etc/resolv.conf'];
    const owners = await daemon.shell('one', `stat -L -c '%n %u' ${paths.join(' ')}`);
    assert.deepEqual(
      owners.split('\n'),
      paths.map((path) => `${path} 0`),
    );
    await daemon.shell('one', 'echo x > /disk/a; chown 7:8 /disk/a; echo y > /memory/b');
    assert.equal(await daemon.shell('one', 'cat /conf/key'), 'value');
    const onDisk = await stat(join(daemon.root.podsDir, uid, 'volumes/kubernetes.io~empty-dir/disk/a'));
    assert.deepEqual([onDisk.uid, onDisk.gid], [7, 8], 'whom it belongs to inside');
    await daemon.shell('two', 'echo z > /disk/own; test "$(stat -c %u /disk/own)" = 1000');

    const given = await readFile(join(daemon.root.podsDir, uid, 'userns'), 'utf8');
    await daemon.restart('SIGKILL');
    await daemon.ready('one');
    assert.equal(await firstIdOf('one'), first);
    // A container that is made by the next daemon has its users too.
    await daemon.shell('one', 'kill -TERM 1');
    await daemon.podWhen('one', (pod) => pod.status?.containerStatuses?.[0]?.restartCount === 1, 'started again');
    await daemon.ready('one');
    assert.equal(await firstIdOf('one'), first);
    assert.equal(await daemon.shell('one', 'cat /disk/a /memory/b; stat -c %u:%g /disk/a'), 'x\ny\n7:8');
    assert.equal(await readFile(join(daemon.root.podsDir, uid, 'userns'), 'utf8'), given);

    await daemon.delete('one');
    await daemon.delete('two');
    await daemon.gone('one');
    await daemon.gone('two');
    await daemon.gantry('delete', 'configmap', 'conf');
    await leaks.assertNone();
  });
});
