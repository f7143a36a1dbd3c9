import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ExecOutcome } from '../../kube/gantry-extensions.ts';
import { openFakeCli, type FakeCli } from '../fake-cli.ts';

const bytes = (text: string): Uint8Array => Buffer.from(text);

async function answering(outcome: Partial<ExecOutcome>): Promise<FakeCli> {
  const whole = { exitCode: 0, stdout: bytes('out\n'), stderr: bytes(''), cutOff: [], ...outcome };
  const cli = await openFakeCli({ execSync: () => Promise.resolve(whole) });
  await cli.pod('web');
  return cli;
}

test('output that was cut off is said on stderr, and is a failure even if the command has ended with success', async () => {
  const cli = await answering({ cutOff: ['stdout'] });
  assert.deepEqual(await cli.run(['exec', 'web', '--', 'cat', '/dev/zero']), {
    code: 1,
    out: 'out\n',
    err: 'error: stdout is cut off at 16 MiB: what came after it is lost\n',
  });
  const failed = await (await answering({ cutOff: ['stdout', 'stderr'], exitCode: 3 })).run(['exec', 'web', '--', 'x']);
  assert.equal(failed.code, 3);
  assert.match(failed.err, /stdout and stderr are cut off at 16 MiB.*\ncommand terminated with exit code 3\n$/);
});

test('a command that goes on: what it prints is shown at its end, which is said when it takes longer', async () => {
  const ended = Promise.withResolvers<ExecOutcome>();
  const cli = await openFakeCli({ execSync: () => ended.promise });
  await cli.pod('web');
  const running = cli.run(['exec', 'web', '--', 'yes']);
  await cli.api.clock.advance(3_000);
  ended.resolve({ exitCode: 0, stdout: bytes('y\n'), stderr: bytes(''), cutOff: [] });
  const { code, out, err } = await running;
  assert.deepEqual([code, out], [0, 'y\n']);
  assert.equal(
    err,
    'the command runs; what it prints is shown when it has ended, the first 16 MiB of it (Ctrl-C ends it)\n',
  );
});

test('nothing is said of one that has ended by then', async () => {
  const cli = await answering({});
  const timers = cli.api.clock.pendingTimers;
  assert.deepEqual(await cli.run(['exec', 'web', '--', 'true']), { code: 0, out: 'out\n', err: '' });
  assert.equal(cli.api.clock.pendingTimers, timers);
});
