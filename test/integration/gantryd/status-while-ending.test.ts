import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Pod } from '../../../src/kube/objects.ts';
import { eventually, Gantryd, podOf } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { TempRoot } from '../../support/temp-root.ts';
import { WrappedOciRuntime } from '../../support/wrapped-oci-runtime.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const POLITE = 'trap "exit 11" TERM; while :; do sleep 1 & wait $!; done';
const DEAF = 'trap "" TERM; while :; do sleep 1; done';

/** Of each container: its exit code, if it has ended, and whether it is ready. */
function ends(pod: Pod | undefined): [name: string, code: number | undefined, ready: boolean][] {
  const statuses = pod?.status?.containerStatuses ?? [];
  return statuses.map(({ name, state, ready }) => [name, state?.terminated?.exitCode, ready]);
}

test('how containers ended is in the status of their pod while what cleans them up hangs', { skip }, async () => {
  await using root = await TempRoot.make();
  const oci = await WrappedOciRuntime.make(join(root.dir, 'oci'));
  await using daemon = await Gantryd.make({ root, flags: [`--oci-runtime=${oci.path}`] });
  await daemon.start();
  await daemon.importImage();
  const leaks = await LeakCheck.begin(root.leakRoots([{ path: root.logRoot }]));
  const spec = { terminationGracePeriodSeconds: 3 };
  await daemon.apply(podOf('told', [{ script: POLITE }, { script: DEAF }], spec), '--wait');
  await oci.hang('delete');
  try {
    await daemon.gantry('delete', 'pod', 'told', '--wait=false');
    const pod = await eventually(
      () => daemon.pod('told'),
      (found) => ends(found).every(([, , ready]) => !ready),
      'both ends in the status',
    );
    assert.deepEqual(ends(pod), [
      ['main', 11, false],
      ['c1', 137, false],
    ]);
    assert.ok(pod?.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'False'));
    // Nothing of it has been cleaned up: so it is the hang, and not its end, during which that was told.
    assert.match(await daemon.gantry('explain', 'pod', 'told'), /Still pending:[^]*delete/);
  } finally {
    await oci.work('delete');
  }
  await eventually(
    () => daemon.pod('told'),
    (found) => found === undefined,
    'the pod gone',
  );
  await leaks.assertNone();
});
