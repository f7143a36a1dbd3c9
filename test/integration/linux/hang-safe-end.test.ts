import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const WORKER = fileURLToPath(new URL('../../../src/linux/hang-safe-worker.ts', import.meta.url));
const TIMES = 10;
const CALLS = 200;

test('a helper process whose daemon is killed while it answers ends without a word', async () => {
  for (let time = 0; time < TIMES; time++) {
    const helper = fork(WORKER, [], { execArgv: [], stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
    assert.ok(helper.stderr);
    const said = text(helper.stderr);
    const exited = once(helper, 'exit');
    for (let seq = 1; seq <= CALLS; seq++) helper.send({ seq, request: { call: 'stat', path: '/' } });
    await once(helper, 'message');
    helper.disconnect();
    assert.equal(await said, '');
    assert.deepEqual(await exited, [null, 'SIGKILL']);
  }
});
