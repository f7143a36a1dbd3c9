import type { Op } from './abort.ts';
import type { Clock } from './clock.ts';
import { messageOf } from './errors.ts';

/**
 * One thing that is not as it should be, or that belongs to somebody else and is only listed.
 *
 * - `orphan`: this Gantry's, and nobody owns it (any more).
 * - `missing`: somebody owns it, and it is not there.
 * - `blocked`: ours and unwanted, but something is in the way that is not ours to take away.
 * - `foreign`: another runtime's, another Gantry's, somebody's. Never touched.
 */
export interface Finding {
  readonly problem: 'orphan' | 'missing' | 'blocked' | 'foreign';
  /** `cgroup`, `netns`, `snapshot` … */
  readonly kind: string;
  /** Which one: a path, a name, an id. Unique together with the kind. */
  readonly key: string;
  /** One sentence for a person: what is wrong with it, or whose it is. */
  readonly message: string;
  /** What `--fix` does about it; absent when that is not for a program to do. */
  readonly action?: string;
  /** After `--fix`, of those that have an action. */
  readonly outcome?: 'fixed' | 'failed';
  readonly error?: string;
}

export interface DoctorReport {
  readonly instanceId: string;
  readonly findings: readonly Finding[];
  /** What could not be looked at, and why. */
  readonly notices: readonly string[];
}

/** A finding, and how to put it right. */
export interface Diagnosis {
  readonly finding: Finding;
  /** Succeeds when there is nothing to do any more; throws, saying what is in the way. */
  readonly fix?: (op: Op) => Promise<void>;
}

export interface Examination {
  /** In the order in which they are to be put right. */
  readonly diagnoses: readonly Diagnosis[];
  readonly notices: readonly string[];
}

/** Looks at one part of the machine. Changes nothing. */
export interface Examiner {
  examine(op: Op): Promise<Examination>;
}

/** What is on its way (a pod that starts, one that ends) is over or has moved on by the second look. */
const SECOND_LOOK_MS = 300;

export function isUnresolved({ problem, outcome }: Finding): boolean {
  return problem !== 'foreign' && outcome !== 'fixed';
}

/**
 * Examines, and with `fix` puts right what can be. Since pods come and go meanwhile, only what two looks find is a finding; and
 * a fix counts when a look after it does not find the thing any more.
 */
export async function consult(
  op: Op,
  {
    instanceId,
    examiners,
    clock,
    fix,
  }: {
    readonly instanceId: string;
    readonly examiners: readonly Examiner[];
    readonly clock: Clock;
    readonly fix: boolean;
  },
): Promise<DoctorReport> {
  const { diagnoses, notices } = await lookTwice(op, examiners, clock);
  const before = diagnoses.map(({ finding }) => finding);
  if (!fix || !diagnoses.some((diagnosis) => diagnosis.fix !== undefined)) {
    return { instanceId, findings: before, notices };
  }
  const errors = new Map<string, string>();
  for (const { finding, fix: putRight } of diagnoses) {
    if (putRight === undefined) continue;
    op.signal.throwIfAborted();
    try {
      await putRight(op);
      op.log.info({ finding }, 'put right by gantry doctor');
    } catch (error) {
      op.log.warn({ finding, error: messageOf(error) }, 'gantry doctor could not put this right');
      errors.set(nameOf(finding), messageOf(error));
    }
  }
  const after = await lookTwice(op, examiners, clock);
  return {
    instanceId,
    findings: afterFix(
      diagnoses,
      errors,
      after.diagnoses.map(({ finding }) => finding),
    ),
    notices: after.notices,
  };
}

/** Pure: what became of each finding, and what has come to light since. */
export function afterFix(
  before: readonly Diagnosis[],
  errors: ReadonlyMap<string, string>,
  after: readonly Finding[],
): Finding[] {
  const still = new Map(after.map((finding) => [nameOf(finding), finding]));
  const seen = new Set(before.map(({ finding }) => nameOf(finding)));
  const judged = before.flatMap(({ finding, fix }): Finding[] => {
    const now = still.get(nameOf(finding));
    if (fix === undefined) return now === undefined ? [] : [now];
    const error = errors.get(nameOf(finding));
    if (now === undefined) return [{ ...finding, outcome: 'fixed' }];
    return [{ ...now, outcome: 'failed', error: error ?? 'it is still so' }];
  });
  return [...judged, ...after.filter((finding) => !seen.has(nameOf(finding)))];
}

async function lookTwice(op: Op, examiners: readonly Examiner[], clock: Clock): Promise<Examination> {
  const first = await look(op, examiners);
  if (first.diagnoses.every(({ finding }) => finding.problem === 'foreign')) return first;
  await clock.sleep(SECOND_LOOK_MS, op.signal);
  const second = await look(op, examiners);
  const seen = new Set(first.diagnoses.map(({ finding }) => nameOf(finding)));
  return { ...second, diagnoses: second.diagnoses.filter(({ finding }) => seen.has(nameOf(finding))) };
}

async function look(op: Op, examiners: readonly Examiner[]): Promise<Examination> {
  const examinations = await Promise.all(examiners.map((examiner) => examiner.examine(op)));
  return {
    diagnoses: examinations.flatMap(({ diagnoses }) => diagnoses),
    notices: examinations.flatMap(({ notices }) => notices),
  };
}

/** Whatever is wrong with it: what could not be put right may be blocked from then on. */
function nameOf({ kind, key }: Finding): string {
  return `${kind}\0${key}`;
}
