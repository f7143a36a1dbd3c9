import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RuntimePaths } from '../store/paths.ts';
import { attachSocketPath, longestStateDir } from './bundle-files.ts';
import { CappedOutput } from './capped-output.ts';
import { parseSyncMessage } from './conmon.ts';

test('sync messages', () => {
  assert.deepEqual(parseSyncMessage('{"data": 4711}'), { data: 4711 });
  assert.deepEqual(parseSyncMessage('{"data": -1, "message": "no\\n"}'), { data: -1, message: 'no\n' });
  for (const line of ['', '{', '{"data": "x"}', '[]', 'null', '7']) assert.equal(parseSyncMessage(line), undefined);
});

test('a long id still fits into a socket address', () => {
  assert.equal(attachSocketPath('/run/gantry/socks', 'f'.repeat(64)).length, 17 + 1 + 32 + 7);
  const socket = attachSocketPath(
    new RuntimePaths('/', `/${'x'.repeat(longestStateDir() - 1)}`).sockets,
    'f'.repeat(64),
  );
  assert.equal(Buffer.byteLength(socket), 107);
});

test('output is kept up to its cap', () => {
  const output = new CappedOutput(5);
  output.add(Buffer.from('abc'));
  assert.equal(output.truncated, false);
  output.add(Buffer.from('def'));
  output.add(Buffer.from('ghi'));
  assert.equal(Buffer.from(output.bytes()).toString(), 'abcde');
  assert.equal(output.truncated, true);
});
