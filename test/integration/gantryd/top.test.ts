import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { findProgram } from '../../../src/lib/find-program.ts';
import { eventually, Gantryd, podOf } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';

const skip = process.getuid?.() !== 0 && 'needs root';

test('gantry top tells what a pod uses, to kubectl, too', { skip }, async (t) => {
  await using daemon = await Gantryd.withImage();
  const leaks = await LeakCheck.begin(daemon.root.leakRoots([{ path: daemon.root.logRoot }]));
  const busy = 'trap "exit 0" TERM; while :; do :; done';
  const idle = 'trap "exit 0" TERM; while :; do sleep 1 & wait $!; done';
  const pod = podOf('loaded', [
    { name: 'busy', command: ['sh', '-c', busy] },
    { name: 'idle', command: ['sh', '-c', idle] },
  ]);
  await daemon.apply(JSON.stringify(pod), '--wait', '--timeout', '300s');

  await t.test('gantry', async () => {
    const out = await eventually(
      // Until there is one, it is an error.
      async () => (await daemon.cli(['top', 'pods', '-c', '--sort-by', 'cpu'])).stdout,
      (said) => said.includes('loaded'),
      'a first window',
    );
    const [header, first, second, ...others] = out
      .trimEnd()
      .split('\n')
      .map((text) => text.split(/ +/));
    assert.deepEqual(header, ['POD', 'NAME', 'CPU(cores)', 'MEMORY(bytes)']);
    assert.deepEqual(first?.slice(0, 2), ['loaded', 'busy']);
    assert.deepEqual(second?.slice(0, 2), ['loaded', 'idle']);
    assert.deepEqual(others, []);
    assert.ok(parseInt(first[2] ?? '', 10) > 20, out);
    assert.match(first[3] ?? '', /^\d+Mi$/);
  });

  await t.test('kubectl', async (t2) => {
    const kubectl = await findProgram('kubectl');
    if (kubectl === undefined) {
      t2.skip('kubectl is not here');
      return;
    }
    const door = createServer((client) => {
      const inside = connect(daemon.root.apiSocket);
      for (const socket of [client, inside]) socket.on('error', () => socket.destroy());
      client.pipe(inside).pipe(client);
    }).listen(0, '127.0.0.1');
    await once(door, 'listening');
    const { port } = door.address() as AddressInfo;
    const where = ['--server', `http://127.0.0.1:${String(port)}`, '--cache-dir', join(daemon.root.dir, 'kubectl')];
    try {
      const { stdout } = await promisify(execFile)(kubectl, [...where, 'top', 'pods', '--no-headers']);
      assert.match(stdout, /^loaded +\d+m +\d+Mi/);
    } finally {
      door.close();
    }
  });

  await daemon.gantry('delete', 'pod', 'loaded');
  await leaks.assertNone();
});
