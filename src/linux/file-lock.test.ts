import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { isKind } from '../lib/errors.ts';
import { lockFile } from './file-lock.ts';

test('a second holder is refused; the lock of a killed process is free at once', async () => {
  const path = join(await mkdtemp(join(tmpdir(), 'gantry-lock-')), 'lock');
  const program = `
    import { lockFile } from ${JSON.stringify(new URL('./file-lock.ts', import.meta.url).href)};
    globalThis.lock = await lockFile(${JSON.stringify(path)});
    process.stdout.write('held');
    process.stdin.resume();`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  await new Promise((resolve) => child.stdout.once('data', resolve));
  await assert.rejects(lockFile(path), (error) => isKind(error, 'FailedPrecondition'));
  child.kill('SIGKILL');
  await new Promise((resolve) => child.once('exit', resolve));
  await using held = await lockFile(path);
  await assert.rejects(lockFile(path), (error) => isKind(error, 'FailedPrecondition'));
  await held.release();
  await (await lockFile(path)).release();
});
