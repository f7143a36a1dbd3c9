import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseRfc3339 } from './rfc3339.ts';

test('times of RFC 3339', () => {
  const at = Date.UTC(2024, 1, 29, 12, 30, 5, 250);
  for (const text of ['2024-02-29T12:30:05.25Z', '2024-02-29t12:30:05.250z', '2024-02-29T14:00:05.250000001+01:30']) {
    assert.equal(parseRfc3339(text), at, text);
  }
});

test('what is none, whatever a Date makes of it', () => {
  const texts = [
    '2020',
    '2020-01-01',
    '2020-01-01 00:00:00Z',
    '2020-01-01T00:00:00',
    '2023-02-29T00:00:00Z',
    '',
    'now',
  ];
  for (const text of [
    ...texts,
    '2020-13-01T00:00:00Z',
    '2020-01-01T25:00:00Z',
    '2020-01-01T00:00:00+1:00',
    'x2020-01-01T00:00:00Z',
  ])
    assert.equal(parseRfc3339(text), undefined, text);
});
