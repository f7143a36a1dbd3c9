import type { FaultPoint } from '../../src/lib/fault-points.ts';
import { ALL_POINTS } from './planned-faults.ts';

/** A life during which the daemon is killed at given points. */
export interface FaultCase {
  readonly point: FaultPoint;
  /** `again`: the recovery from the first kill is killed too. */
  readonly variant: 'once' | 'again';
  readonly life: 'pod' | 'image';
  /** For one daemon after the other. */
  readonly plans: readonly string[];
  /** With fewer the case has tested nothing. */
  readonly neededKills: number;
  readonly startMayFail: boolean;
  /** Something without an owner is put there while no daemon runs. */
  readonly orphan: boolean;
}

/** What must fail first, so that there is something to undo. */
const FAILURES: Readonly<Record<string, string>> = {
  'undo-run': 'run-sandbox/infra-started:error',
  'undo-create': 'create-container/snapshot-held:error',
  'undo-start': 'start-container/task-recorded:error',
};

/** Where the daemon before was killed, so that the recovery has what this point is about. */
const BEFORE: Readonly<Record<string, string>> = {
  'recovery/container-rolled-back': 'create-container/snapshot-made:2',
  'recovery/start-released': 'start-container/task-made:2',
  'recovery/start-undone': 'start-container/task-made:2',
  'recovery/start-adopted': 'start-container/command-started:2',
  'recovery/sandbox-rolled-back': 'run-sandbox/network-connected',
  'recovery/watched': 'stop-container/signalled',
};
const BEFORE_OTHERWISE = 'start-container/exit-awaited:2';

/** The recoveries that are killed in the `again` variant, in turn. All of them are reached whatever was going on. */
const RECOVERIES: readonly FaultPoint[] = [
  'recovery/opened',
  'recovery/objects-done',
  'recovery/execs-ended',
  'recovery/resumed',
  'recovery/orphans-found',
  'recovery/orphans-done',
  'recovery/network-repaired',
  'recovery/images-swept',
];

/** So that the client repeats its call before recovery has come to the container. */
const SLOW_RECOVERY = Array.from({ length: 3 }, () => 'recovery/container-looked:delay=500').join(',');

export const ALL_CASES: readonly FaultCase[] = ALL_POINTS.flatMap((point, index) => casesOf(point, index));

function casesOf(point: FaultPoint, index: number): FaultCase[] {
  const verb = point.split('/')[0] ?? '';
  const failure = FAILURES[verb];
  const base = {
    point,
    life: verb === 'pull-image' || verb === 'remove-image' ? 'image' : 'pod',
    startMayFail: verb === 'undo-start',
    orphan: point === 'recovery/orphan-released',
  } as const;
  if (verb === 'recovery') {
    const first = BEFORE[point] ?? BEFORE_OTHERWISE;
    return [
      { ...base, variant: 'once', plans: [first, point], neededKills: 2 },
      { ...base, variant: 'again', plans: [first, point, point], neededKills: 2 },
    ];
  }
  const plan = failure === undefined ? point : `${failure},${point}`;
  const recovery = RECOVERIES[index % RECOVERIES.length] ?? 'recovery/opened';
  return [
    { ...base, variant: 'once', plans: verb === 'start-container' ? [plan, SLOW_RECOVERY] : [plan], neededKills: 1 },
    { ...base, variant: 'again', plans: [plan, recovery], neededKills: 2 },
  ];
}
