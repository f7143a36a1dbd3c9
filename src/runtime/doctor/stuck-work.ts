import type { Diagnosis, Examiner } from '../../lib/doctor.ts';
import type { RetryView } from '../../lib/retry-queue.ts';
import { subjectOfId } from '../container/subject.ts';
import type { RuntimeContext } from '../context.ts';
import { holdUps } from '../inspector/pending-items.ts';

/** What failed once has met something that passes, as a rule: it is tried again a second later. */
const GOES_ON_FAILING = 2;

/** Work on a container or a sandbox that failed and is tried again. */
export interface StuckWork extends Pick<RetryView, 'id' | 'events' | 'attempts' | 'lastError'> {
  readonly of: 'container' | 'sandbox';
  /** For people: `container main of pod default/web`. */
  readonly name: string;
  /** What it waits for and what it still holds, if anything is known of that. */
  readonly holdUps: string;
}

/** Says what is not finished of those that there are: what has no owner any more is found as a leftover. */
export function stuckWorkExaminer(rt: RuntimeContext): Examiner {
  return { examine: () => Promise.resolve({ diagnoses: stuckFindings(stuckWork(rt)), notices: [] }) };
}

function stuckWork(rt: RuntimeContext): StuckWork[] {
  return rt.retries.view().flatMap((view): StuckWork[] => {
    const of = rt.containers.get(view.id) ? 'container' : rt.sandboxes.get(view.id) ? 'sandbox' : undefined;
    if (of === undefined) return [];
    const { containerName, podNamespace, podName } = subjectOfId(rt, view.id);
    const pod = `pod ${podNamespace ?? '?'}/${podName ?? '?'}`;
    const name = of === 'container' ? `container ${containerName ?? '?'} of ${pod}` : `sandbox of ${pod}`;
    return [{ ...view, of, name, holdUps: holdUps(rt, view.id) }];
  });
}

/** Nothing of it is left over, since its owner is there; but a cleanup that goes on failing keeps what it holds. Pure. */
export function stuckFindings(work: readonly StuckWork[]): Diagnosis[] {
  return work.flatMap(({ of, id, name, events, attempts, lastError, holdUps: more }): Diagnosis[] => {
    if (attempts < GOES_ON_FAILING) return [];
    const what = events.join(', ') || 'cleanup';
    const message = `${name}: ${what} not finished after ${String(attempts)} attempts, and is tried again by itself: ${lastError}${more}`;
    return [{ finding: { problem: 'blocked', kind: of, key: id, message } }];
  });
}
