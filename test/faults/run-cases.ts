import type { FaultCase } from './cases.ts';
import { FaultRoom, type Outcome } from './fault-room.ts';

/**
 * Runs the cases in so many rooms side by side. A room in which one failed is not used again. When
 * `signal` fires those that run are finished and no more are begun.
 */
export async function runCases(
  cases: readonly FaultCase[],
  rooms: number,
  tell: (outcome: Outcome) => void = () => undefined,
  signal?: AbortSignal,
): Promise<Outcome[]> {
  const left = [...cases];
  const outcomes: Outcome[] = [];
  const work = async (): Promise<void> => {
    let room: FaultRoom | undefined;
    try {
      for (let next = left.shift(); next !== undefined && signal?.aborted !== true; next = left.shift()) {
        room ??= await FaultRoom.open();
        const outcome = await room.run(next);
        outcomes.push(outcome);
        tell(outcome);
        if (outcome.failure === undefined) continue;
        await room[Symbol.asyncDispose]();
        room = undefined;
      }
    } finally {
      await room?.[Symbol.asyncDispose]();
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: rooms }, work));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
  return outcomes.sort((a, b) => cases.indexOf(a.case) - cases.indexOf(b.case));
}
