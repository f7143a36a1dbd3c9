import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { combineExit, exitFromWait, parseExitFile } from './exit-status.ts';

const writtenAtWallMs = 1_700_000_000_000;

test('an exit file is a number from 0 to 255, or not there yet', () => {
  fc.assert(fc.property(fc.integer({ min: 0, max: 255 }), (code) => parseExitFile(String(code)) === code));
  for (const text of ['', ' ', '-1', '256', '1000', 'x', '13\0', '0x7', '1 2'])
    assert.equal(parseExitFile(text), undefined);
  assert.equal(parseExitFile('137\n'), 137);
});

test('the file decides the number; the wait status tells a signal from an exit', () => {
  const at = (code: number): { code: number; writtenAtWallMs: number } => ({ code, writtenAtWallMs });
  const base = { kind: 'exited', finishedAtWallMs: writtenAtWallMs };
  assert.deepEqual(combineExit(at(0), undefined), { ...base, code: 0 });
  assert.deepEqual(combineExit(at(137), { kind: 'exited', code: 137 }), { ...base, code: 137 });
  assert.deepEqual(combineExit(at(137), { kind: 'signaled', signal: 9, coreDumped: false }), {
    ...base,
    code: 137,
    signal: 9,
  });
  assert.deepEqual(combineExit(at(143), undefined), { ...base, code: 143, signal: 15, signalGuessed: true });
  assert.deepEqual(combineExit(at(255), undefined), { ...base, code: 255 });
  assert.deepEqual(combineExit(at(128), undefined), { ...base, code: 128 });
});

test('whatever the process table says, the code is that of the file', () => {
  const wait = fc.option(
    fc.oneof(
      fc.record({ kind: fc.constant('exited' as const), code: fc.integer({ min: 0, max: 255 }) }),
      fc.record({
        kind: fc.constant('signaled' as const),
        signal: fc.integer({ min: 1, max: 64 }),
        coreDumped: fc.boolean(),
      }),
    ),
    { nil: undefined },
  );
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 255 }), wait, (code, status) => {
      const exit = combineExit({ code, writtenAtWallMs }, status);
      assert.equal(exit.code, code);
      if (exit.signal !== undefined) assert.equal(code, 128 + exit.signal);
      if (exit.signalGuessed === true) assert.notEqual(exit.signal, undefined);
    }),
  );
});

test('the process table alone', () => {
  assert.deepEqual(exitFromWait({ kind: 'signaled', signal: 11, coreDumped: true }, 5), {
    kind: 'exited',
    code: 139,
    signal: 11,
    finishedAtWallMs: 5,
  });
  assert.deepEqual(exitFromWait({ kind: 'exited', code: 3 }, 5), { kind: 'exited', code: 3, finishedAtWallMs: 5 });
});
