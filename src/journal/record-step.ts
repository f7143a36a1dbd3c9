import type { Clock } from '../lib/clock.ts';
import { isKind, messageOf } from '../lib/errors.ts';
import type { JournalSubject, JournalWriter } from './journal.ts';

export interface StepWords {
  /** `sandbox.network`, `container.start` … */
  readonly what: string;
  /** When it is done: `container started`. */
  readonly message: string;
  /** The step itself, which has failed or was broken off: `start`. */
  readonly step: string;
  readonly why?: string;
}

/** Does one step of a pod's life and notes in the journal that it was done, or how it failed, and how long it took. */
export async function recordStep<T>(
  { journal, clock }: { readonly journal: JournalWriter; readonly clock: Clock },
  subject: JournalSubject,
  { step: name, ...words }: StepWords,
  step: () => Promise<T>,
): Promise<T> {
  const startMs = clock.monotonicMs();
  const took = (): number => Math.round((clock.monotonicMs() - startMs) * 10) / 10;
  try {
    const value = await step();
    journal.record({ subject, ...words, outcome: 'ok', durationMs: took() });
    return value;
  } catch (error) {
    journal.record({
      subject,
      ...words,
      message: `${name} ${isKind(error, 'Canceled') ? 'broken off' : 'failed'}: ${messageOf(error)}`,
      outcome: 'failed',
      durationMs: took(),
    });
    throw error;
  }
}
