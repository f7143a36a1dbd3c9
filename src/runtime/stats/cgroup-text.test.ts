import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseCount, parseFlatKeyed, parseLimit, parsePressure } from './cgroup-text.ts';

test('numbers, limits and lists of numbers', () => {
  assert.equal(parseCount('18446744073709551615\n'), 18_446_744_073_709_551_615n);
  for (const text of [undefined, '', 'max\n', '-1\n', '1 2\n']) assert.equal(parseCount(text), undefined);
  assert.equal(parseLimit('0\n'), 0n);
  for (const text of ['max\n', '9223372036854771712\n', '-1\n']) assert.equal(parseLimit(text), undefined);
  assert.deepEqual(
    [...parseFlatKeyed('a 1\nb two\n\nc 3')],
    [
      ['a', 1n],
      ['c', 3n],
    ],
  );
  assert.equal(parseFlatKeyed(undefined).size, 0);
});

test('a file that tells no pressure', () => {
  for (const text of [undefined, '', 'something else\n']) assert.equal(parsePressure(text), undefined);
});
