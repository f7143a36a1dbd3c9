import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RequestBudget } from './request-budget.ts';

const MIB = 1024 * 1024;

test('long requests that are not whole hold so much together, and short ones are always taken', () => {
  const budget = new RequestBudget();
  const held = Array.from({ length: 4 }, () => budget.share());
  for (const share of held) for (let i = 0; i < 16; i++) share.grow(MIB);
  const another = budget.share();
  assert.throws(() => another.grow(MIB), { kind: 'ResourceExhausted' });
  budget.share().grow(64 * 1024);
  held[0]?.[Symbol.dispose]();
  held[0]?.[Symbol.dispose]();
  for (let i = 0; i < 16; i++) budget.share().grow(MIB);
  assert.throws(() => budget.share().grow(2 * MIB), { kind: 'ResourceExhausted' });
});
