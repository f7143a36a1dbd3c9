import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import {
  constants,
  type OutgoingHttpHeaders,
  type ServerHttp2Stream,
  type ServerStreamResponseOptions,
} from 'node:http2';
import { messageOf } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';

const CREATED = 'http2.server.stream.created';

/**
 * Keeps an answer to a call that its client has broken off from ending the process: grpc-js answers a call to a method that there is not, or of
 * another content type, without a look at whether its stream is still there, and Node throws then, where nobody can catch it. Node tells of
 * each stream that is made before grpc-js sees it; of all of this process's, which does the others no harm.
 */
export function forgiveLateResponses(log: Log): Disposable {
  const onCreated = (message: unknown): void => {
    const stream = streamOf(message);
    if (stream !== undefined) forgive(stream, log);
  };
  subscribe(CREATED, onCreated);
  return { [Symbol.dispose]: () => void unsubscribe(CREATED, onCreated) };
}

function forgive(stream: ServerHttp2Stream, log: Log): void {
  const respond = stream.respond.bind(stream);
  stream.respond = (headers?: OutgoingHttpHeaders, options?: ServerStreamResponseOptions): void => {
    try {
      respond(headers, options);
    } catch (error) {
      log.debug({ error: messageOf(error) }, 'an answer came too late');
      if (!stream.closed) stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    }
  };
}

function streamOf(message: unknown): ServerHttp2Stream | undefined {
  const stream = typeof message === 'object' && message !== null && 'stream' in message ? message.stream : undefined;
  return isServerStream(stream) ? stream : undefined;
}

function isServerStream(stream: unknown): stream is ServerHttp2Stream {
  return typeof stream === 'object' && stream !== null && 'respond' in stream && typeof stream.respond === 'function';
}
