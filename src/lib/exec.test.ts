import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Op } from './abort.ts';
import { withDeadline } from './abort.ts';
import { systemClock } from './clock.ts';
import { isKind } from './errors.ts';
import { execFile } from './exec.ts';
import { silentLog } from './log.ts';

const op: Op = { signal: new AbortController().signal, log: silentLog };

test('exit code, signal, both streams and stdin', async () => {
  const result = await execFile(op, '/bin/sh', ['-c', 'cat; echo oops >&2; exit 3'], { input: 'in' });
  assert.deepEqual(result, { code: 3, signal: null, stdout: 'in', stderr: 'oops\n' });
  assert.equal((await execFile(op, '/bin/sh', ['-c', 'kill -9 $$'])).signal, 'SIGKILL');
});

test('no such program is NotFound and names it', async () => {
  await assert.rejects(
    execFile(op, '/no/such', []),
    (error) => isKind(error, 'NotFound') && /\/no\/such/.test(String(error)),
  );
});

test('a deadline kills what the program started too, and does not wait for it', async () => {
  await assert.rejects(
    withDeadline(op, systemClock, 200, 'sleeping', (inner) =>
      execFile(inner, '/bin/sh', ['-c', 'sleep 1000 & sleep 1000']),
    ),
    (error) => isKind(error, 'DeadlineExceeded'),
  );
});

test('output beyond the cap is thrown away, not kept', async () => {
  const { stdout } = await execFile(op, '/bin/sh', ['-c', 'yes | head -c 100000'], { maxOutputBytes: 1000 });
  assert.equal(stdout.length, 1000);
});
