import assert from 'node:assert/strict';
import { chmod } from 'node:fs/promises';
import { dirname } from 'node:path';
import { test } from 'node:test';
import { execFile } from '../../../src/linux/exec.ts';
import { Gantryd, op, podOf } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const NOBODY = '65534';
/**
 * Nothing in these is secret: what containers' own users read through a mount, the init of shared PID namespaces, which addresses the
 * CNI plug-in has given, and which process the daemon is.
 */
const FOR_ALL =
  /\/(sandboxes\/[0-9a-f]+\/(hosts|hostname|resolv\.conf)|infra-rootfs\/catatonit|cni\/ipam\/.*|gantryd\.pid)$/;

async function asNobody(...argv: readonly string[]): Promise<string> {
  const args = [`--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups', '--', ...argv];
  return (await execFile(op, 'setpriv', args)).stdout;
}

test('another user of the machine reads no secret, in no file of the root and state folders', { skip }, async () => {
  await using daemon = await Gantryd.withImage();
  const { root } = daemon;
  // What is above protects nothing here, as with /var/lib.
  for (const folder of [dirname(root.dir), root.dir, root.data, root.state]) await chmod(folder, 0o755);
  const leaks = await LeakCheck.begin(root.leakRoots([{ path: root.logRoot }]));
  const word = 'wherever-i-am-read';
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 's' }, stringData: { password: word } };
  await daemon.apply(secret);
  const reads = { secretKeyRef: { name: 's', key: 'password' } };
  await daemon.apply(
    podOf('p', [{ env: [{ name: 'PASSWORD', valueFrom: reads }], volumeMounts: [{ name: 's', mountPath: '/s' }] }], {
      volumes: [{ name: 's', secret: { secretName: 's' } }],
    }),
  );
  await daemon.ready('p');
  const places = [root.data, root.state];
  const readable = (await asNobody('find', ...places, '-type', 'f', '-readable')).split('\n').filter(Boolean);
  assert.ok(readable.includes(`${root.state}/gantryd.pid`), 'another user sees into the folders here');
  assert.deepEqual(
    readable.filter((path) => !FOR_ALL.test(path)),
    [],
  );
  assert.equal(await asNobody('grep', '-rlsa', word, ...places), '');
  await daemon.gantry('delete', 'pod', 'p');
  await leaks.assertNone();
});
