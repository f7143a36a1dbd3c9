import type { FaultCase } from './cases.ts';
import { judge, livesOf, type FaultLife, type LifeOutcome, type Outcome, type Verdict } from './lives.ts';
import { RemoteRoom } from './remote-room.ts';

/** A life in which something was amiss, and what its cases come to, each alone. */
interface Suspicion {
  readonly failure: string;
  left: number;
  proven: boolean;
}

interface Queued {
  readonly life: FaultLife;
  readonly suspicion?: Suspicion;
}

/**
 * Runs the cases in so many rooms side by side. When something was amiss in a life with several of them, each is run alone, to tell which
 * it was. A room in which something was amiss is not used again. When `signal` fires those that run are finished and no more are begun.
 */
export async function runCases(
  cases: readonly FaultCase[],
  rooms: number,
  tell: (outcome: Outcome) => void = () => undefined,
  signal?: AbortSignal,
): Promise<Outcome[]> {
  const left: Queued[] = livesOf(cases).map((life) => ({ life }));
  const outcomes: Outcome[] = [];
  const work = async (): Promise<void> => {
    let room: RemoteRoom | undefined;
    try {
      for (let next = left.shift(); next !== undefined && signal?.aborted !== true; next = left.shift()) {
        room ??= RemoteRoom.open();
        const lived = await room.run(next.life);
        if (lived.lacking !== undefined) {
          for (const outcome of notRun(next.life, lived.lacking)) {
            outcomes.push(outcome);
            tell(outcome);
          }
          continue;
        }
        const verdict = judge(next.life, lived);
        if (verdict.failure !== undefined) {
          await room[Symbol.asyncDispose]();
          room = undefined;
        }
        left.unshift(...stillToRun(next.life, verdict));
        for (const outcome of outcomesOf(next, lived, verdict)) {
          outcomes.push(outcome);
          tell(outcome);
        }
      }
    } finally {
      await room?.[Symbol.asyncDispose]();
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: rooms }, work));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
  return outcomes.sort((a, b) => cases.indexOf(a.case) - cases.indexOf(b.case));
}

function notRun({ cases }: FaultLife, lacking: string): Outcome[] {
  return cases.map((one) => ({ case: one, kills: 0, seconds: 0, lacking }));
}

/** Of a life with several cases: those that it cannot be said of yet whether they are right. */
function stillToRun({ cases }: FaultLife, { reached, failure }: Verdict): Queued[] {
  if (cases.length === 1) return [];
  if (failure !== undefined) {
    const suspects = cases.slice(0, Math.max(1, reached));
    const rest = cases.slice(suspects.length);
    const suspicion = { failure, left: suspects.length, proven: false };
    const alone = suspects.map((one): Queued => ({ life: { cases: [one] }, suspicion }));
    return rest.length === 0 ? alone : [...alone, { life: { cases: rest } }];
  }
  const [missed, ...later] = cases.slice(reached);
  if (missed === undefined) return [];
  const alone = { life: { cases: [missed] } };
  return later.length === 0 ? [alone] : [alone, { life: { cases: later } }];
}

function outcomesOf({ life, suspicion }: Queued, lived: LifeOutcome, { reached, failure }: Verdict): Outcome[] {
  const { cases } = life;
  const seconds = lived.seconds / cases.length;
  const kills = lived.killedAt.length;
  if (cases.length > 1) {
    return failure === undefined ? cases.slice(0, reached).map((one) => ({ case: one, kills: 1, seconds })) : [];
  }
  const unexplained = settle(suspicion, failure !== undefined);
  const told = failure ?? unexplained;
  return cases.map((one) => ({ case: one, kills, seconds, ...(told === undefined ? {} : { failure: told }) }));
}

/** When each passes alone, and together they did not, the last one is told of it. */
function settle(suspicion: Suspicion | undefined, failed: boolean): string | undefined {
  if (suspicion === undefined) return undefined;
  suspicion.left--;
  suspicion.proven ||= failed;
  return suspicion.left > 0 || suspicion.proven ? undefined : `only with others before it: ${suspicion.failure}`;
}
