import { SURE_RECOVERY_POINTS, type FaultCase } from './cases.ts';

/** A life during which the daemon is killed: once for each of the cases, or for one case again and again. */
export interface FaultLife {
  readonly cases: readonly FaultCase[];
}

/** What a life came to. */
export interface LifeOutcome {
  /** In order. */
  readonly killedAt: readonly string[];
  readonly seconds: number;
  /** Undefined: as if nothing had been killed. */
  readonly failure?: string;
  /** What this machine lacks for it: it was not lived. */
  readonly lacking?: string;
}

/** What a case came to. */
export interface Outcome {
  readonly case: FaultCase;
  readonly kills: number;
  readonly seconds: number;
  readonly failure?: string;
  readonly lacking?: string;
}

const SLOW_RECOVERY = ['recovery/sandbox-looked', ...Array.from({ length: 3 }, () => 'recovery/container-looked')]
  .map((point) => `${point}:delay=500`)
  .join(',');

/** For one daemon after the other. */
export function plansOf({ cases }: FaultLife): string[] {
  const plans: string[] = [];
  let slow = false;
  for (const one of cases) {
    plans.push(...one.plans.map((plan, i) => (slow && i === 0 ? `${SLOW_RECOVERY},${plan}` : plan)));
    slow = one.slowRecovery;
  }
  return slow ? [...plans, SLOW_RECOVERY] : plans;
}

/** Cases of different stages share a life: starting and ending a pod takes longer than a kill. */
export function livesOf(cases: readonly FaultCase[]): FaultLife[] {
  const alone = cases.filter((one) => !isShared(one));
  const stages = Map.groupBy(cases.filter(isShared), ({ stage }) => stage ?? 0);
  const ordered = [...stages].sort(([a], [b]) => a - b).map(([, ofStage]) => ofStage);
  const longest = Math.max(0, ...ordered.map(({ length }) => length));
  const shared = Array.from({ length: longest }, (_, i) => ordered.flatMap((ofStage) => ofStage[i] ?? []));
  return [...shared.map((together) => ({ cases: together })), ...alone.map((one) => ({ cases: [one] }))];
}

function isShared({ variant, stage }: FaultCase): boolean {
  return variant === 'once' && stage !== undefined;
}

/** How a life went. */
export interface Verdict {
  /** How many of its cases came about as planned, from the first one. */
  readonly reached: number;
  /** Undefined: nothing was amiss. That a step was not reached is none of a life with several kills: another may have led it past. */
  readonly failure?: string;
}

export function judge({ cases }: FaultLife, { killedAt, failure }: LifeOutcome): Verdict {
  let kills = 0;
  let reached = 0;
  for (const { point, plans } of cases) {
    const planned = point.startsWith('recovery/') ? [withoutTime(plans[0] ?? ''), point] : [point];
    if (!planned.every((one, i) => killedAt[kills + i] === one)) break;
    kills += planned.length;
    reached++;
  }
  const told = failure ?? (cases.length === 1 ? shortfall(cases[0], reached, killedAt.slice(kills)) : undefined);
  const where = killedAt.length > 1 ? `\nkilled at ${killedAt.join(', ')}` : '';
  return { reached, ...(told === undefined ? {} : { failure: `${told}${where}` }) };
}

function shortfall(one: FaultCase | undefined, reached: number, later: readonly string[]): string | undefined {
  if (reached === 0) return 'the step was not reached';
  if (one?.variant !== 'again') return undefined;
  const missed = SURE_RECOVERY_POINTS.filter((point) => !later.includes(point));
  return missed.length === 0 ? undefined : `the recovery was not killed at ${missed.join(', ')}`;
}

function withoutTime(plan: string): string {
  return plan.replace(/:\d+$/, '');
}
