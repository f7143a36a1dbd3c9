import assert from 'node:assert/strict';
import { test } from 'node:test';
import { internal } from './errors.ts';
import { settleAll, settleBoth } from './settle-all.ts';

test('what failed is thrown when nothing is under way any more', async () => {
  const slow = Promise.withResolvers<number>();
  let thrown: unknown;
  const settled = settleAll([Promise.reject(internal('one')), slow.promise]).catch(
    (error: unknown) => (thrown = error),
  );
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(thrown, undefined);
  slow.resolve(1);
  await settled;
  assert.match(String(thrown), /one/);
});

test('of two kinds: both, or what failed', async () => {
  assert.deepEqual(await settleBoth(Promise.resolve(1), Promise.resolve('a')), [1, 'a']);
  const failure = internal('the second');
  await assert.rejects(settleBoth(Promise.resolve(1), Promise.reject(failure)), failure);
});
