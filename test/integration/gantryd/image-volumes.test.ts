import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { Gantryd, IMAGE, podOf } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { tarOf } from '../../support/tar.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const DATA = 'localhost/gantry/data:1';

describe('images as volumes of pods', { skip }, () => {
  let daemon: Gantryd;
  let leaks: LeakCheck;

  const importData = async (content: string): Promise<void> => {
    const tar = join(daemon.root.dir, 'data.tar');
    await writeFile(tar, await tarOf({ file: content, 'deep/er/part': 'a part' }));
    await daemon.gantry('image', 'import', '--rootfs', tar, DATA);
  };

  before(async () => {
    daemon = await Gantryd.withImage();
    await importData('first');
    leaks = await LeakCheck.begin(daemon.root.leakRoots([{ path: daemon.root.logRoot }]));
  });
  after(async () => {
    await daemon[Symbol.asyncDispose]();
  });
  afterEach(async () => {
    await daemon.endPods();
  });

  const volume = (reference: string): object => ({ name: 'data', image: { reference, pullPolicy: 'Never' } });

  test('whole and in part, read-only, in the status, through a kill of the daemon; nothing is left', async () => {
    const volumeMounts = [
      { name: 'data', mountPath: '/data', readOnly: false },
      { name: 'data', mountPath: '/part', subPath: 'deep/er' },
    ];
    await daemon.create(podOf('reader', [{ volumeMounts }], { volumes: [volume(DATA)] }));
    await daemon.ready('reader');
    assert.equal(await daemon.shell('reader', 'cat /data/file /part/part'), 'firsta part');
    await assert.rejects(daemon.shell('reader', 'touch /data/x'), /Read-only file system/);
    const imageRefOf = async (): Promise<string> => {
      const [status] = (await daemon.pod('reader'))?.status?.containerStatuses ?? [];
      const mounts = status?.volumeMounts ?? [];
      assert.deepEqual(
        mounts.map(({ mountPath, readOnly }) => [mountPath, readOnly]),
        [
          ['/data', true],
          ['/part', true],
        ],
      );
      return mounts[0]?.volumeStatus?.image?.imageRef ?? '';
    };
    const first = await imageRefOf();
    assert.match(first, /^sha256:[0-9a-f]{64}$/);

    // A tag that moves: what is mounted stays as it is, a container that is made anew sees the new one.
    await importData('second');
    await daemon.restart('SIGKILL');
    await daemon.ready('reader');
    assert.equal(await daemon.shell('reader', 'cat /data/file'), 'first');
    assert.equal(await imageRefOf(), first);
    // A shell that waited for it would be killed with it.
    await daemon.shell('reader', '(sleep 1; kill -TERM 1) >/dev/null 2>&1 &');
    await daemon.podWhen('reader', (pod) => pod.status?.containerStatuses?.[0]?.restartCount === 1, 'started again');
    await daemon.ready('reader');
    assert.equal(await daemon.shell('reader', 'cat /data/file'), 'second');
    assert.notEqual(await imageRefOf(), first);

    await daemon.delete('reader');
    await daemon.gone('reader');
    // All but the files: layers are found again.
    await leaks.assertNone({
      only: ['processes', 'mounts', 'network namespaces', 'CNI addresses', 'links', 'iptables rules', 'cgroups'],
    });
  });

  test('an image that is not there, or has no such path, is told of, and the pod ends', async () => {
    const mount = { name: 'data', mountPath: '/data' };
    await daemon.create(podOf('lacking', [{ volumeMounts: [mount] }], { volumes: [volume('localhost/none:1')] }));
    await daemon.eventWhen('lacking', 'ErrImageNeverPull', /localhost\/none:1.*not present/);
    const reason = (pod: string, wanted: RegExp): Promise<unknown> =>
      daemon.podWhen(
        pod,
        ({ status }) => {
          const waiting = status?.containerStatuses?.[0]?.state?.waiting;
          return wanted.test(`${waiting?.reason ?? ''}: ${waiting?.message ?? ''}`);
        },
        String(wanted),
      );
    await reason('lacking', /^ErrImageNeverPull: volume "data": /);
    const part = { ...mount, subPath: 'no/where' };
    await daemon.create(podOf('partless', [{ volumeMounts: [part] }], { volumes: [volume(IMAGE)] }));
    await reason('partless', /^CreateContainerError: ImageVolumeMountFailed: .*busybox:1 has no no\/where/);
    await daemon.delete('lacking');
    await daemon.delete('partless');
    await daemon.gone('lacking');
    await daemon.gone('partless');
  });
});
