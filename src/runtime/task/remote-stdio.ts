import type { Readable, Writable } from 'node:stream';
import type { TerminalSize } from '../streaming/streams.ts';

/** What of a client's streams an exec or attach is connected to. */
export interface RemoteStdio {
  readonly stdin: Readable | undefined;
  readonly stdout: Writable | undefined;
  readonly stderr: Writable | undefined;
  readonly resizes: AsyncIterable<TerminalSize>;
}

/**
 * Hands on what the client types, a piece at a time, until it closes its half (`onEnd`). What comes when nobody reads it any more is
 * thrown away: a client that still writes is not to hang on that.
 */
export async function pumpInput(
  stdin: Readable,
  write: (chunk: Buffer) => Promise<void>,
  onEnd: () => void,
): Promise<void> {
  try {
    let failed = false;
    for await (const chunk of stdin as AsyncIterable<Buffer>) {
      failed = failed || !(await succeeds(write(chunk)));
    }
  } catch {
    // The client has vanished.
  }
  onEnd();
}

function succeeds(work: Promise<void>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  );
}
