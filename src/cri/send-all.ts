import { raceSignal, type Op } from '../lib/abort.ts';

/** The part of a gRPC stream that is written to: Node's Writable, with its say on what it still takes. */
export interface OutgoingStream {
  write(bytes: Buffer): boolean;
  once(event: 'drain', listener: () => void): unknown;
  removeListener(event: 'drain', listener: () => void): unknown;
}

/**
 * Sends what `messages` gives, one after another, and asks for the next one only when the stream says that it takes more: what
 * waits for a slow reader waits in the source, which decides what becomes of it. Throws what the source throws, and the
 * op's reason when that fires; the source is closed in either case.
 */
export async function sendAll<T>(
  op: Op,
  messages: AsyncIterable<T>,
  stream: OutgoingStream,
  encode: (message: T) => Buffer,
): Promise<void> {
  const source = messages[Symbol.asyncIterator]();
  try {
    for (;;) {
      // Not left to the source to look at the signal: it may sit in a wait that knows nothing of it.
      const next: IteratorResult<T, unknown> = await raceSignal(source.next(), op.signal);
      if (next.done === true) return;
      if (!stream.write(encode(next.value))) await drained(stream, op.signal);
    }
  } finally {
    // Not awaited, for the same reason.
    source.return?.().catch(() => undefined);
  }
}

async function drained(stream: OutgoingStream, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const onDrain = (): void => resolve(undefined);
  stream.once('drain', onDrain);
  try {
    await raceSignal(promise, signal);
  } finally {
    stream.removeListener('drain', onDrain);
  }
}
