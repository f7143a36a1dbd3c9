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
const ANY_PORT = ':0';

/**
 * CRI's calls that lead to streams, and the server of the streams, which listens on a port of its own choice only when the first URL is asked
 * for. Throws FailedPrecondition where it cannot listen on the port that it was given.
 */
export async function openStreaming(rt: RuntimeContext, listen: string): Promise<Streaming> {
  const handlers = streamHandlers(rt);
  let opening: Promise<StreamingServer> | undefined;
  const opened = async (): Promise<StreamingServer> => {
    opening ??= serve(rt, listen, handlers);
    try {
      return await opening;
    } catch (error) {
      opening = undefined;
      throw error;
    }
  };
  if (!listen.endsWith(ANY_PORT)) await opened();
  return {
    calls: {
      exec: async (_op, request) => {
        const exec = checkExec(rt, request);
        return { url: (await opened()).execUrl(exec) };
      },
      attach: async (_op, request) => {
        const attach = checkAttach(rt, request);
        return { url: (await opened()).attachUrl(attach) };
      },
      portForward: async (_op, request) => {
        const portForward = checkPortForward(rt, request);
        return { url: (await opened()).portForwardUrl(portForward) };
      },
    },
    close: async () => {
      await (await opening)?.close();
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
