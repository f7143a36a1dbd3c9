import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ExitStatus } from '../task/exit-status.ts';
import { shownExit } from './exit-reason.ts';

const shown = (exit: ExitStatus): readonly [number, string, string] => {
  const { exitCode, reason, message } = shownExit({
    kind: 'exited',
    cause: { kind: 'ended', exit },
    finishedAtWallMs: 1,
  });
  return [exitCode, reason, message];
};

test('the reason says what is known, and nothing more', () => {
  const finishedAtWallMs = 1;
  assert.deepEqual(shown({ kind: 'exited', code: 0, finishedAtWallMs }), [0, 'Completed', '']);
  assert.deepEqual(shown({ kind: 'exited', code: 3, finishedAtWallMs }), [3, 'Error', '']);
  assert.deepEqual(shown({ kind: 'exited', code: 137, signal: 9, finishedAtWallMs }), [137, 'Error', '']);
  assert.deepEqual(shown({ kind: 'exited', code: 137, signal: 9, oom: 'init', finishedAtWallMs }), [
    137,
    'OOMKilled',
    '',
  ]);
  assert.deepEqual(shown({ kind: 'exited', code: 0, oom: 'child', finishedAtWallMs }), [
    0,
    'Completed',
    'a child process was OOM-killed',
  ]);
  assert.deepEqual(shown({ kind: 'exited', code: 9, logLoss: 'its file system is full', finishedAtWallMs }), [
    9,
    'Error',
    'output may be missing from the log: its file system is full',
  ]);
  assert.deepEqual(shown({ kind: 'unknown', reason: 'the machine went down', finishedAtWallMs }), [
    255,
    'Unknown',
    'the machine went down',
  ]);
});

test('a start that failed is 128, StartError, in the runtime’s words', () => {
  assert.deepEqual(
    shownExit({ kind: 'exited', cause: { kind: 'start-failed', message: 'no such file' }, finishedAtWallMs: 1 }),
    { exitCode: 128, reason: 'StartError', message: 'no such file' },
  );
});
