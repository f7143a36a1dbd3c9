import assert from 'node:assert/strict';
import { mkdtemp, readFile, rmdir, unlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Op } from '../lib/abort.ts';
import { withDeadline } from '../lib/abort.ts';
import { systemClock } from '../lib/clock.ts';
import { isKind } from '../lib/errors.ts';
import { execFile } from './exec.ts';
import { silentLog } from '../lib/log.ts';

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

const pipes = (): number => process.getActiveResourcesInfo().filter((name) => name === 'PipeWrap').length;

test('one that has left the process group does not keep our ends of its pipes open', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'gantry-exec-'));
  const file = join(dir, 'pid');
  const before = pipes();
  const controller = new AbortController();
  const script = 'setsid sleep 600 & echo $! > "$0.new"; mv "$0.new" "$0"; wait';
  const running = execFile({ ...op, signal: controller.signal }, '/bin/sh', ['-c', script, file]);
  running.catch(() => undefined);
  let pid = '';
  while (pid === '') {
    await systemClock.sleep(20);
    pid = await readFile(file, 'utf8').catch(() => '');
  }
  t.after(async () => {
    process.kill(Number(pid), 'SIGKILL');
    await unlink(file);
    await rmdir(dir);
  });
  // Its session is its own a moment later than it is there.
  while (!(await readFile(`/proc/${pid.trim()}/cmdline`, 'utf8')).startsWith('sleep')) await systemClock.sleep(20);
  controller.abort(new Error('enough'));
  await assert.rejects(running, /enough/);
  for (let rest = 500; rest > 0 && pipes() > before; rest--) await systemClock.sleep(20);
  assert.equal(pipes(), before);
});

test('out of descriptors is Internal and names the program', async () => {
  const program = `
    import { openSync, closeSync } from 'node:fs';
    import { execFile } from ${JSON.stringify(new URL('./exec.ts', import.meta.url).href)};
    const op = { signal: new AbortController().signal };
    const taken = [];
    try { for (;;) taken.push(openSync('/dev/null')); } catch {}
    const error = await execFile(op, '/bin/true', [], { input: 'x' }).catch((e) => e);
    for (const fd of taken) closeSync(fd);
    console.log(error.kind, error.message);
  `;
  const argv = ['-c', 'ulimit -n 64; exec "$0" --input-type=module -e "$1"', process.execPath, program];
  const { stdout, stderr } = await execFile(op, '/bin/sh', argv);
  assert.match(stdout, /^Internal \/bin\/true: cannot be started: .*EMFILE/, stderr);
});
