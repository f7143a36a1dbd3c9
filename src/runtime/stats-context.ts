import { withDeadline, type Op } from '../lib/abort.ts';
import { kindOf, messageOf } from '../lib/errors.ts';
import type { RuntimeContext } from './context.ts';
import type { Meters } from './stats/meters.ts';

/** What the calls about usage work with. */
export interface StatsContext {
  readonly rt: Pick<RuntimeContext, 'containers' | 'sandboxes' | 'clock' | 'paths' | 'log'>;
  readonly meters: Pick<Meters, 'cgroup' | 'container' | 'layers' | 'network' | 'processes'>;
}

/** What cannot be read in this time is left out of the answer, and holds up no other. */
const READ_TIMEOUT_MS = 2_000;

/** Undefined where it cannot be read: the log says why, and the rest of the answer is told without. Throws only the op's own reason. */
export async function readOr<T>(
  op: Op,
  { rt }: Pick<StatsContext, 'rt'>,
  what: string,
  read: (op: Op) => Promise<T | undefined>,
): Promise<T | undefined> {
  try {
    return await withDeadline(op, rt.clock, READ_TIMEOUT_MS, what, read);
  } catch (error) {
    op.signal.throwIfAborted();
    rt.log.warn({ errKind: kindOf(error), error: messageOf(error) }, `${what} failed: told without`);
    return undefined;
  }
}
