import type { Op } from '../lib/abort.ts';
import { backoffDelayMs, type BackoffPolicy } from '../lib/backoff.ts';
import type { Clock } from '../lib/clock.ts';
import type { GantryError } from '../lib/errors.ts';
import { fromGrpc } from './error-mapping.ts';
import type { ContainerEventResponse } from './gen/api.ts';
import type { RuntimeService } from './services.ts';

export type ContainerEventNews =
  | { readonly kind: 'event'; readonly event: ContainerEventResponse }
  /** Events are being told again, but some before now were not: whoever keeps a picture lists now. */
  | { readonly kind: 'lost'; readonly why: string }
  /** The runtime tells nothing any more; it is asked again in `retryInMs`. Without an error it ended the stream itself. */
  | { readonly kind: 'ended'; readonly error: GantryError | undefined; readonly retryInMs: number }
  /** This runtime has no events: nothing more will come. */
  | { readonly kind: 'unsupported' };

const RETRY: BackoffPolicy = { initialMs: 1_000, maxMs: 30_000 };

/**
 * The container events of any runtime, in process or behind a socket, for as long as the op goes on: a stream that breaks off is
 * asked for anew. Events are hints: who needs to know lists as well. Never throws; ends when the op's signal fires.
 */
export async function* followContainerEvents(
  op: Op,
  runtime: Pick<RuntimeService, 'getContainerEvents'>,
  clock: Clock,
): AsyncGenerator<ContainerEventNews, void, undefined> {
  /** Streams in a row that told nothing. */
  let silent = 0;
  let gap: string | undefined;
  const isOver = (): boolean => op.signal.aborted;
  while (!isOver()) {
    let heard = false;
    let error: GantryError | undefined;
    try {
      const events = runtime.getContainerEvents?.(op, {});
      if (events === undefined) break;
      // Said when the new stream has begun, so that whatever happens after the list is told.
      if (gap !== undefined) yield { kind: 'lost', why: gap };
      for await (const event of events) {
        heard = true;
        yield { kind: 'event', event };
      }
    } catch (thrown) {
      error = fromGrpc(thrown);
    }
    if (isOver()) return;
    if (error?.kind === 'NotImplemented') break;
    gap = error?.message ?? 'the runtime ended the stream';
    silent = heard ? 0 : silent + 1;
    // Having been too slow is no reason to wait as well.
    if (heard && error?.kind === 'DataLoss') continue;
    const retryInMs = backoffDelayMs(RETRY, Math.max(1, silent));
    yield { kind: 'ended', error, retryInMs };
    await clock.sleep(retryInMs, op.signal).catch(() => undefined);
  }
  if (!isOver()) yield { kind: 'unsupported' };
}
