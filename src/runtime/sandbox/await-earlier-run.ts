import { withDeadline, type Op } from '../../lib/abort.ts';
import { isKind } from '../../lib/errors.ts';
import type { RuntimeContext } from '../context.ts';
import type { SandboxMeta } from '../store/sandbox-record.ts';

/** A plug-in's DEL takes some 100 ms each; one that hangs is not waited for to its end. */
const TIMEOUT_MS = 30_000;

/**
 * What a process that was killed had half made of the same pod has the pod's host ports until it is undone. That is on its way when the
 * call is repeated, as it is at once: so it is waited for, or the pod would be told that its ports are taken by itself.
 */
export async function awaitEarlierRun(
  op: Op,
  { sandboxes, clock }: Pick<RuntimeContext, 'sandboxes' | 'clock'>,
  meta: SandboxMeta,
): Promise<void> {
  if (!meta.config.portMappings.some(({ hostPort }) => hostPort > 0)) return;
  const earlier = sandboxes.list().filter((one) => one.status.state.kind === 'starting' && isOfSamePod(one.meta, meta));
  try {
    await withDeadline(op, clock, TIMEOUT_MS, 'waiting for an earlier sandbox of the pod', async (waitOp) => {
      for (const { meta: other } of earlier) {
        await sandboxes.waitFor(waitOp, other.id, (status) => status?.state.kind !== 'starting');
      }
    });
  } catch (error) {
    // Whether a port is still taken is found out now.
    if (!isKind(error, 'DeadlineExceeded')) throw error;
  }
}

function isOfSamePod(one: SandboxMeta, other: SandboxMeta): boolean {
  if (one.id === other.id) return false;
  const [a, b] = [one.config.metadata, other.config.metadata];
  return a?.namespace === b?.namespace && a?.name === b?.name && a?.uid === b?.uid;
}
