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

test('whose it is can be written down, and is gone with the file', async () => {
  const path = join(await mkdtemp(join(tmpdir(), 'gantry-lock-')), 'lock');
  const one = await lockFile(path);
  await one.write('mine, and more of it\n');
  await one.write('mine\n');
  await one.release();
  const two = await lockFile(path);
  assert.equal(await two.read(), 'mine\n');
  await two.remove();
  await using three = await lockFile(path);
  assert.equal(await three.read(), '');
});

test('a file that was taken away while it was being locked is no lock', async () => {
  const path = join(await mkdtemp(join(tmpdir(), 'gantry-lock-')), 'lock');
  for (let turn = 0; turn < 20; turn++) {
    const held = await lockFile(path);
    const next = lockFile(path).catch(() => undefined);
    await held.remove();
    const lock = await next;
    if (lock !== undefined) await assert.rejects(lockFile(path), (error) => isKind(error, 'FailedPrecondition'));
    await lock?.release();
  }
});
