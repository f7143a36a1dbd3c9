import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../lib/fake-clock.ts';
import { ToldStarts } from './told-starts.ts';

test('what has been told is noted ten seconds later, once, and counts as told at once', async () => {
  const clock = new FakeClock();
  const noted: string[] = [];
  const told = new ToldStarts(clock, (id) => noted.push(id));
  told.add('a');
  told.add('a');
  assert.ok(told.has('a'));
  await clock.advance(9_999);
  assert.deepEqual(noted, []);
  await clock.advance(1);
  assert.deepEqual(noted, ['a']);
  assert.ok(!told.has('a'));
});

test('an end that is no kill notes what is outstanding', async () => {
  const clock = new FakeClock();
  const noted: string[] = [];
  const told = new ToldStarts(clock, (id) => noted.push(id));
  told.add('a');
  told.add('b');
  told.close();
  assert.deepEqual(noted, ['a', 'b']);
  await clock.advance(50_000);
  assert.deepEqual(noted, ['a', 'b']);
});
