import { childSignal } from '../lib/abort.ts';
import { deadlineExceeded, isKind } from '../lib/errors.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Event, Pod } from '../kube/objects.ts';
import { line, type CliContext, type ExitCode } from './context.ts';
import { printable } from './output/printable.ts';
import { podStatusWord } from './output/pod-summary.ts';

export type Readiness =
  | { readonly kind: 'ready' }
  | { readonly kind: 'failed'; readonly why: string }
  /** `says`: a container itself says why, in more than a word. */
  | { readonly kind: 'waiting'; readonly why: string; readonly says: boolean };

/** A pod that has run to its end with success is as good as a ready one; one that failed for good will not become ready. */
export function readinessOf(pod: Pod): Readiness {
  const { status } = pod;
  if (status?.phase === 'Succeeded') return { kind: 'ready' };
  if (status?.phase === 'Failed') return { kind: 'failed', why: status.message ?? status.reason ?? 'the pod failed' };
  if (pod.metadata.deletionTimestamp !== undefined) return { kind: 'failed', why: 'the pod is being deleted' };
  const ready = status?.conditions?.find((condition) => condition.type === 'Ready');
  if (ready?.status === 'True') return { kind: 'ready' };
  const waiting = status?.containerStatuses
    ?.map((container) => ({ name: container.name, ...container.state?.waiting }))
    .find((state) => state.message !== undefined);
  const word = podStatusWord(pod);
  return {
    kind: 'waiting',
    says: waiting !== undefined,
    why: waiting?.message === undefined ? word : `${word} (${waiting.name}: ${waiting.message})`,
  };
}

/** Waits for all of the pods at once; says on stderr what holds one back when the time is up. */
export async function waitUntilReady(
  context: CliContext,
  kube: KubeClient,
  pods: readonly Pod[],
  timeoutMs: number,
): Promise<ExitCode> {
  const outcomes = await Promise.all(pods.map((pod) => waitForOne(context, kube, pod, timeoutMs)));
  let code: ExitCode = 0;
  for (const [index, outcome] of outcomes.entries()) {
    const name = `pod/${pods[index]?.metadata.name ?? ''}`;
    if (outcome.kind === 'ready') {
      await line(context.out, `${name} ready`);
      continue;
    }
    code = 1;
    const pod = pods[index];
    const why =
      outcome.kind === 'waiting' && !outcome.says && pod !== undefined
        ? `${outcome.why}${await whatHoldsItBack(context, kube, pod).catch(() => '')}`
        : outcome.why;
    const late = outcome.kind === 'waiting' ? `not ready within ${timeoutMs / 1000} s` : 'will not become ready';
    await line(context.err, `error: ${name} ${late}: ${printable(why)}`);
  }
  return code;
}

async function waitForOne(context: CliContext, kube: KubeClient, pod: Pod, timeoutMs: number): Promise<Readiness> {
  using child = childSignal(context.op.signal, { clock: context.clock, timeoutMs, what: 'waiting for the pod' });
  const op = { ...context.op, signal: child.signal };
  let last = readinessOf(pod);
  if (last.kind !== 'waiting') return last;
  const { name, namespace, uid } = pod.metadata;
  try {
    const events = kube.watch(op, 'pods', { namespace, fieldSelector: `metadata.name=${name}` });
    for await (const event of events) {
      if (event.type === 'BOOKMARK' || event.object.metadata.uid !== uid) continue;
      if (event.type === 'DELETED') return { kind: 'failed', why: 'the pod was deleted' };
      last = readinessOf(event.object);
      if (last.kind !== 'waiting') return last;
    }
  } catch (error) {
    if (!isKind(error, 'DeadlineExceeded', 'Canceled')) throw error;
  }
  if (context.op.signal.aborted) throw deadlineExceeded('interrupted');
  return last;
}

/** What the agent said last that is wrong, ` (REASON: MESSAGE)`; else what keeps a condition from being true. Empty if nothing is known. */
async function whatHoldsItBack(context: CliContext, kube: KubeClient, pod: Pod): Promise<string> {
  const { name, namespace, uid } = pod.metadata;
  const { op } = context;
  const { items } = await kube.list(op, 'events', { namespace, fieldSelector: `involvedObject.name=${name}` });
  const warning = items
    .filter((event) => event.type === 'Warning' && event.involvedObject.uid === uid)
    .reduce<Event | undefined>(
      (newest, event) => (newest && timeOf(newest) > timeOf(event) ? newest : event),
      undefined,
    );
  if (warning !== undefined) return ` (${warning.reason ?? ''}: ${warning.message ?? ''})`;
  const now = await kube.get(op, 'pods', { namespace, name });
  const condition = now.status?.conditions?.find((each) => each.status === 'False' && each.message !== undefined);
  return condition === undefined ? '' : ` (${condition.type}: ${condition.message ?? ''})`;
}

function timeOf({ lastTimestamp, eventTime, metadata }: Event): number {
  return Date.parse(lastTimestamp ?? eventTime ?? metadata.creationTimestamp);
}
