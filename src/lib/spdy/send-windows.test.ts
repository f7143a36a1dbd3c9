import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DEFAULT_WINDOW, LARGEST_WINDOW } from './frames.ts';
import { SendWindows, WHOLE_CONNECTION } from './send-windows.ts';

function opened(...ids: number[]): SendWindows {
  const windows = new SendWindows();
  for (const id of ids) windows.open(id);
  return windows;
}

test('a stream may send what its own window and that of the whole connection have left', () => {
  const windows = opened(1, 3);
  assert.equal(windows.allowance(1), DEFAULT_WINDOW);
  windows.spend(1, 60_000);
  assert.equal(windows.allowance(1), DEFAULT_WINDOW - 60_000);
  assert.equal(windows.allowance(3), DEFAULT_WINDOW - 60_000, 'the connection has no more');
  windows.update(WHOLE_CONNECTION, 100_000);
  assert.equal(windows.allowance(1), DEFAULT_WINDOW - 60_000);
  assert.equal(windows.allowance(3), DEFAULT_WINDOW);
  assert.equal(windows.unknown, false);
});

test('a client that keeps none is sent all, and may begin to keep them', () => {
  const windows = opened(1);
  windows.spend(1, DEFAULT_WINDOW);
  assert.equal(windows.allowance(1), 0);
  assert.equal(windows.unknown, true);
  windows.keepsNone();
  assert.equal(windows.allowance(1), Number.POSITIVE_INFINITY);
  windows.spend(1, 1_000);
  windows.update(1, 500);
  assert.equal(windows.allowance(1), 0, 'what was sent meanwhile is counted');
  windows.update(1, 1_000);
  windows.update(WHOLE_CONNECTION, 1_200);
  assert.equal(windows.allowance(1), 200);
});

test('one that has shown that it keeps them is believed', () => {
  const windows = opened(1);
  windows.update(WHOLE_CONNECTION, 1);
  windows.keepsNone();
  windows.spend(1, DEFAULT_WINDOW);
  assert.equal(windows.allowance(1), 0);
});

test('a new initial size changes the streams that are there, to less than nothing too', () => {
  const windows = opened(1);
  windows.spend(1, 50_000);
  assert.equal(windows.setInitial(1_000), true);
  assert.equal(windows.allowance(1), 0);
  windows.open(3);
  assert.equal(windows.allowance(3), 1_000);
  windows.update(1, 49_500);
  assert.equal(windows.allowance(1), 500);
});

test('a window that becomes too large is said to', () => {
  const windows = opened(1);
  assert.equal(windows.update(1, LARGEST_WINDOW - DEFAULT_WINDOW), true);
  assert.equal(windows.update(1, 1), false);
  assert.equal(windows.update(5, LARGEST_WINDOW), true, 'of a stream that is gone it is nothing');
  assert.equal(windows.setInitial(0xffff_ffff), false);
});
