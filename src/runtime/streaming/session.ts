import type { Writable } from 'node:stream';
import type { Op } from '../../lib/abort.ts';
import { childSignal } from '../../lib/abort.ts';
import type { ChildSignal } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { canceled } from '../../lib/errors.ts';
import type { StreamingLimits } from './limits.ts';
import type { StreamHandlers } from './streams.ts';

/** What a session works with, whatever it is spoken in. */
export interface SessionContext {
  /** Its signal fires when the daemon closes. */
  readonly op: Op;
  readonly clock: Clock;
  readonly limits: StreamingLimits;
  readonly handlers: StreamHandlers;
}

/** A signal that fires with either of two. To be closed when the work is over. */
export function eitherSignal(one: AbortSignal, other: AbortSignal): ChildSignal {
  const child = childSignal(one);
  const onOther = (): void => {
    const reason: unknown = other.reason;
    child.abort(reason instanceof Error ? reason : canceled('canceled'));
  };
  if (other.aborted) onOther();
  else other.addEventListener('abort', onOther, { once: true });
  const close = (): void => {
    other.removeEventListener('abort', onOther);
    child.close();
  };
  return { signal: child.signal, abort: (error) => child.abort(error), close, [Symbol.dispose]: close };
}

/** Resolves when the signal fires. */
export function fired(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Ends the stream; resolves when all of it has been handed on, or can never be. */
export function sentWhole(stream: Writable | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (stream === undefined || stream.writableFinished || stream.destroyed) {
      resolve();
      return;
    }
    stream.once('finish', () => resolve());
    stream.once('close', () => resolve());
    stream.end();
  });
}
