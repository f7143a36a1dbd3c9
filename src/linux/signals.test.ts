import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseSignal, signalName } from './signals.ts';

test('signals as people write them', () => {
  assert.equal(parseSignal('SIGTERM'), 15);
  assert.equal(parseSignal('term'), 15);
  assert.equal(parseSignal(' 9 '), 9);
  assert.equal(parseSignal('SIGRTMIN+3'), 37);
  assert.equal(parseSignal('rtmax-1'), 63);
  for (const bad of ['', '0', '65', 'SIGNOPE', 'RTMIN+31', '15x'])
    assert.throws(() => parseSignal(bad), /no such signal/);
});

test('a name leads back to its number', () => {
  fc.assert(fc.property(fc.integer({ min: 1, max: 64 }), (number) => parseSignal(signalName(number)) === number));
  assert.equal(signalName(6), 'SIGABRT');
  assert.equal(signalName(37), 'SIGRTMIN+3');
});
