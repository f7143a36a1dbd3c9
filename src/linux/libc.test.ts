import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callAsync, libc } from './libc.ts';

const ENOENT = 2;

test('more calls at once than koffi takes: each gets its own answer', async () => {
  const paths = Array.from({ length: 2_000 }, (_, index) => (index % 2 === 0 ? '/' : '/no/such/path'));
  const answers = await Promise.all(paths.map((path) => callAsync(libc.statfs, path, new Uint8Array(120))));
  assert.deepEqual(
    answers.map(({ result, errno }) => (result === 0 ? 'found' : errno)),
    paths.map((path) => (path === '/' ? 'found' : ENOENT)),
  );
});
