import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, Gantryd, podOf } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const CAP_BYTES = 16 << 20;

test('exec says what it does not show: more than the cap, and a command that goes on', { skip }, async () => {
  await using daemon = await Gantryd.withImage();
  const leaks = await LeakCheck.begin(daemon.root.leakRoots([{ path: daemon.root.logRoot }]));
  await daemon.apply(podOf('p', [{}]));
  await daemon.ready('p');

  const long = await daemon.cli(['exec', 'p', '--', 'head', '-c', '20000000', '/dev/zero']);
  assert.equal(long.code, 1, long.stderr);
  assert.equal(Buffer.byteLength(long.stdout), CAP_BYTES);
  assert.match(long.stderr, /^error: stdout is cut off at 16 MiB: what came after it is lost$/m);
  const short = await daemon.cli(['exec', 'p', '--', 'head', '-c', String(CAP_BYTES - 1), '/dev/zero']);
  assert.equal(short.code, 0, short.stderr);
  assert.equal(Buffer.byteLength(short.stdout), CAP_BYTES - 1);

  await using endless = daemon.background(['exec', 'p', '--', 'sh', '-c', 'yes; echo $0', 'endless']);
  await eventually(
    () => Promise.resolve(endless.stderr()),
    (words) => words.includes('shown when it has ended'),
    'that the command goes on is said',
  );
  endless.kill('SIGINT');
  const { code } = await endless.ended;
  assert.equal(code, 130);
  await eventually(
    async () => (await daemon.cli(['exec', 'p', '--', 'ps'])).stdout,
    (processes) => !processes.includes('yes'),
    'the command ends with the one who asked for it',
  );
  await daemon.gantry('delete', 'pod', 'p');
  await leaks.assertNone();
});
