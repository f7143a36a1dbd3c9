import assert from 'node:assert/strict';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { countOpenFiles, openFilesLimit, parseOpenFilesLimit } from './process-files.ts';

const LIMITS = `Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max open files            1024                 524288               files
`;

test("the soft limit of a process's open files", () => {
  assert.equal(parseOpenFilesLimit(LIMITS), 1024n);
  assert.equal(parseOpenFilesLimit(LIMITS.replace('1024 ', 'unlimited ')), undefined);
  assert.equal(parseOpenFilesLimit(''), undefined);
});

test('what this process has open is counted, and what is gone has nothing', async () => {
  const before = await countOpenFiles([process.pid]);
  const fd = openSync('/dev/null', 'r');
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const after = await countOpenFiles([process.pid]);
  closeSync(fd);
  server.close();
  // Others may come and go meanwhile, not these two.
  assert.ok(after.all >= before.all + 2n, `${String(before.all)}, then ${String(after.all)}`);
  assert.ok(after.sockets >= before.sockets + 1n);
  assert.deepEqual(await countOpenFiles([0x7fff_fffe]), { all: 0n, sockets: 0n });
  assert.equal(await openFilesLimit(0x7fff_fffe), undefined);
});
