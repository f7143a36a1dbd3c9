import assert from 'node:assert/strict';
import { test } from 'node:test';
import { canceled, internal } from '../lib/errors.ts';
import { FakeClock } from '../lib/fake-clock.ts';
import type { JournalInput } from './journal.ts';
import { recordStep } from './record-step.ts';

const WORDS = { what: 'container.start', message: 'container started', step: 'start' };

async function recorded(error?: Error): Promise<JournalInput[]> {
  const entries: JournalInput[] = [];
  const journal = { record: (input: JournalInput): unknown => entries.push(input) };
  const step = (): Promise<void> => (error === undefined ? Promise.resolve() : Promise.reject(error));
  const recording = recordStep({ journal, clock: new FakeClock() }, {}, WORDS, step);
  if (error === undefined) await recording;
  else await assert.rejects(recording, error);
  return entries;
}

test('a step is told as done only when it is', async () => {
  const rows: readonly (readonly [Error | undefined, string, string])[] = [
    [undefined, 'ok', 'container started'],
    [internal('runc start: no'), 'failed', 'start failed: runc start: no'],
    [canceled('RemoveContainer was called'), 'failed', 'start broken off: RemoveContainer was called'],
  ];
  for (const [error, outcome, message] of rows) {
    const entry = { subject: {}, what: 'container.start', message, outcome, durationMs: 0 };
    assert.deepEqual(await recorded(error), [entry]);
  }
});
