import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { listenUnix } from './unix-socket.ts';

/** Dies between the binding and the renaming. */
const KILLED = `
  import net from 'node:net';
  import { listenUnix } from '${new URL('./unix-socket.ts', import.meta.url).href}';
  const server = net.createServer();
  server.on('listening', () => process.kill(process.pid, 'SIGKILL'));
  await listenUnix(server, process.argv[1]);
`;

test('what a process left that was killed while it began to listen is gone with the next one', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'gantry-socket-'));
  try {
    const path = join(folder, 'x.sock');
    const child = spawn(process.execPath, ['--input-type=module', '--eval', KILLED, path], { stdio: 'inherit' });
    assert.deepEqual(await once(child, 'exit'), [null, 'SIGKILL']);
    assert.equal((await readdir(folder)).length, 1);
    const bound = await listenUnix(net.createServer(), path);
    assert.deepEqual(await readdir(folder), ['x.sock']);
    await bound.close();
    assert.deepEqual(await readdir(folder), []);
  } finally {
    await rm(folder, { recursive: true });
  }
});
