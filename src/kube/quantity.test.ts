import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { compareQuantities, isQuantity, quantityToMilli, quantityToNumber } from './quantity.ts';

const exact: readonly (readonly [text: string, whole: number, milli: number])[] = [
  ['0', 0, 0],
  ['1', 1, 1000],
  ['0.5', 1, 500],
  ['500m', 1, 500],
  ['1.5', 2, 1500],
  ['.25', 1, 250],
  ['64Mi', 67_108_864, 67_108_864_000],
  ['1.5Gi', 1_610_612_736, 1_610_612_736_000],
  ['2k', 2000, 2_000_000],
  ['1e3', 1000, 1_000_000],
  ['1E', 1e18, 1e21],
  ['5E-1', 1, 500],
  ['0.1m', 1, 1],
  ['-2', -2, -2000],
];

for (const [text, whole, milli] of exact) {
  test(`quantity ${text}`, () => {
    assert.equal(quantityToNumber(text), whole);
    assert.ok(quantityToMilli(text) === milli || milli > 2 ** 63);
  });
}

test('what is no quantity', () => {
  for (const text of ['', 'x', '1 Mi', '1mi', '1MiB', '--1', '1e', 'Ki', '1.2.3', '0x10', '9'.repeat(65)]) {
    assert.equal(isQuantity(text), false, text);
    assert.throws(() => quantityToNumber(text), /is not a quantity/);
  }
});

test('comparison agrees with the numbers', () => {
  const suffix = fc.constantFrom('', 'm', 'k', 'Ki', 'M', 'Mi');
  fc.assert(
    fc.property(fc.nat(1_000_000), suffix, fc.nat(1_000_000), suffix, (left, leftSuffix, right, rightSuffix) => {
      const [a, b] = [`${left}${leftSuffix}`, `${right}${rightSuffix}`];
      assert.equal(compareQuantities(a, b), Math.sign(quantityToMilli(a) - quantityToMilli(b)));
    }),
  );
});
