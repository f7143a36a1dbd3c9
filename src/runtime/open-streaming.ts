import type { RuntimeService } from '../cri/services.ts';
import { GantryError, messageOf } from '../lib/errors.ts';
import { checkAttach } from './container/attach.ts';
import { checkExec } from './container/exec.ts';
import type { RuntimeContext } from './context.ts';
import { checkPortForward } from './sandbox/port-forward.ts';
import { streamHandlers } from './stream-handlers.ts';
import { serveStreaming } from './streaming/serve-streaming.ts';
import type { StreamingServer } from './streaming/streams.ts';
import { endsWithin } from './task/ends-within.ts';

export interface Streaming {
  /** Each answers with a URL: what is asked for happens when somebody opens it. */
  readonly calls: Required<Pick<RuntimeService, 'exec' | 'attach' | 'portForward'>>;
  /** Ends the sessions, with what was executed in them. */
  close(): Promise<void>;
}

/** What is being executed is told to end, and what does not so is killed: a little longer than that takes. */
const CLOSE_MS = 5_000;

/** CRI's calls that lead to streams, and the server of the streams. Throws FailedPrecondition where it cannot listen. */
export async function openStreaming(rt: RuntimeContext, listen: string): Promise<Streaming> {
  const handlers = streamHandlers(rt);
  const server = await serve(rt, listen, handlers);
  const answer = (url: () => string): Promise<{ url: string }> => Promise.resolve().then(() => ({ url: url() }));
  return {
    calls: {
      exec: (_op, request) => answer(() => server.execUrl(checkExec(rt, request))),
      attach: (_op, request) => answer(() => server.attachUrl(checkAttach(rt, request))),
      portForward: (_op, request) => answer(() => server.portForwardUrl(checkPortForward(rt, request))),
    },
    close: async () => {
      await server.close();
      await endsWithin(rt.clock, handlers.idle(), CLOSE_MS);
    },
  };
}

async function serve(
  { log, clock }: RuntimeContext,
  listen: string,
  handlers: Parameters<typeof serveStreaming>[0]['handlers'],
): Promise<StreamingServer> {
  try {
    return await serveStreaming({ listen, handlers, log, clock });
  } catch (error) {
    throw new GantryError('FailedPrecondition', `--streaming-address: ${messageOf(error)}`, { cause: error });
  }
}
