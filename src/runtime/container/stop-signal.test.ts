import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Signal } from '../../cri/gen/api.ts';
import { isKind } from '../../lib/errors.ts';
import { criSignal, effectiveStopSignal } from './stop-signal.ts';

test('CRI comes before the image, the image before SIGTERM', () => {
  assert.equal(effectiveStopSignal(Signal.SIGQUIT, 'SIGUSR1'), 3);
  assert.equal(effectiveStopSignal(Signal.RUNTIME_DEFAULT, 'SIGUSR1'), 10);
  assert.equal(effectiveStopSignal(Signal.RUNTIME_DEFAULT, 'RTMIN+3'), 37);
  assert.equal(effectiveStopSignal(Signal.RUNTIME_DEFAULT, undefined), 15);
  assert.throws(
    () => effectiveStopSignal(Signal.RUNTIME_DEFAULT, 'SIGNONE'),
    (error) => isKind(error, 'InvalidArgument'),
  );
});

test('every signal of CRI has a number, and each number is shown as a signal of that number', () => {
  for (const [name, value] of Object.entries(Signal)) {
    if (value === Signal.RUNTIME_DEFAULT) continue;
    const number = effectiveStopSignal(value, undefined);
    assert.ok(number >= 1 && number <= 64, name);
    assert.equal(effectiveStopSignal(criSignal(number), undefined), number, name);
  }
});
