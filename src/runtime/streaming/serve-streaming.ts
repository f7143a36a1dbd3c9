import type { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { childSignal } from '../../lib/abort.ts';
import { systemClock } from '../../lib/clock.ts';
import type { Clock } from '../../lib/clock.ts';
import { messageOf, unavailable } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import { http } from '../../lib/node-http.ts';
import { DEFAULT_LIMITS } from './limits.ts';
import type { StreamingLimits } from './limits.ts';
import { listenOn, parseHostPort, printHostPort } from './listen-address.ts';
import { isRefusal, negotiateProtocol } from './negotiate-protocol.ts';
import { serveSession } from './serve-session.ts';
import { mustBeServable } from './stream-call.ts';
import type { StreamCall } from './stream-call.ts';
import type { StreamHandlers, StreamingServer } from './streams.ts';
import { Strangers } from './strangers.ts';
import { UrlTokens } from './url-tokens.ts';

export interface StreamingServerOptions {
  /** `host:port`, port 0 for any that is free. */
  readonly listen: string;
  readonly handlers: StreamHandlers;
  readonly log: Log;
  readonly clock?: Clock;
  readonly limits?: Partial<StreamingLimits>;
}

/** For a request to be there. */
const REQUEST_MS = 10_000;
const CHECK_REQUESTS_MS = 2_000;
const MAX_HEADER_BYTES = 16 * 1024;
/** A client's machine that is gone without a word is found out by this. */
const KEEP_ALIVE_MS = 30_000;
/** For the handlers to end, and their last words to leave. */
const CLOSE_GRACE_MS = 2_000;

/**
 * Serves exec, attach and port-forward by URLs that work once. Whoever can connect may send what he likes: without such a URL he gets
 * a 404, and with one the worst that he can do is to end his own session.
 *
 * @throws InvalidArgument for an address that is none, Unavailable when nobody can listen there
 */
export async function serveStreaming(options: StreamingServerOptions): Promise<StreamingServer> {
  const clock = options.clock ?? systemClock;
  const log = options.log.child({ component: 'streaming' });
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const tokens = new UrlTokens<StreamCall>(clock);
  const strangers = new Strangers();
  const sessions = new Map<Socket, Promise<void>>();
  const closing = childSignal(undefined);
  const context = { op: { signal: closing.signal, log }, clock, limits, handlers: options.handlers };

  const server = http.createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: REQUEST_MS,
      requestTimeout: REQUEST_MS,
      connectionsCheckingInterval: CHECK_REQUESTS_MS,
    },
    answerPlain,
  );
  server.on('connection', (socket) => strangers.add(socket));
  server.on('upgrade', (request, socket, head) => {
    if (!(socket instanceof Socket)) return;
    socket.on('error', (error) => log.debug({ error: error.message }, 'connection failed'));
    const { kind, token } = partsOf(request);
    const call = tokens.look(token);
    if (call?.kind !== kind) {
      refuse(socket, { code: 404, message: 'there is no such URL, or it has been used, or it is older than a minute' });
      return;
    }
    const protocol = negotiateProtocol(call.kind, request.headers);
    if (isRefusal(protocol)) {
      refuse(socket, protocol);
      return;
    }
    tokens.take(token);
    strangers.known(socket);
    socket.setTimeout(0);
    socket.setNoDelay(true);
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    const session = serveSession(context, call, protocol, { request, socket, head })
      .catch((error: unknown) => log.info({ error: messageOf(error), kind }, 'a streaming session failed'))
      .finally(() => {
        sessions.delete(socket);
        socket.destroy();
      });
    sessions.set(socket, session);
  });

  const bound = await listenOn(server, parseHostPort(options.listen));
  server.on('error', (error) => log.warn({ error: error.message }, 'accepting a connection failed'));
  const address = printHostPort(bound);
  log.info({ address }, 'serving');

  const urlFor = (call: StreamCall): string => {
    mustBeServable(call);
    return `http://${address}/${call.kind}/${tokens.issue(call)}`;
  };
  return {
    address,
    execUrl: (request) => urlFor({ kind: 'exec', request }),
    attachUrl: (request) => urlFor({ kind: 'attach', request }),
    portForwardUrl: (request) => urlFor({ kind: 'portforward', request }),
    close: async () => {
      tokens.close();
      server.close();
      strangers.close();
      closing.abort(unavailable('the daemon is shutting down'));
      await Promise.race([Promise.all(sessions.values()), clock.sleep(CLOSE_GRACE_MS)]);
      for (const socket of sessions.keys()) socket.destroy();
    },
  };
}

/** `/exec/TOKEN` */
function partsOf(request: IncomingMessage): { readonly kind: string; readonly token: string } {
  const [, kind = '', token = ''] = (request.url ?? '').split('?', 1)[0]?.split('/') ?? [];
  return { kind, token };
}

function answerPlain(_request: IncomingMessage, response: ServerResponse): void {
  // Whatever it brings is not read.
  response.writeHead(400, { 'Content-Type': 'text/plain', Connection: 'close' });
  response.end('only upgrades to SPDY/3.1 or websocket are served here\n');
}

interface Refused {
  readonly code: number;
  readonly message: string;
  readonly headers?: Readonly<Record<string, string>>;
}

function refuse(socket: Socket, { code, message, headers = {} }: Refused): void {
  const body = `${message}\n`;
  const lines = [
    `HTTP/1.1 ${code} ${http.STATUS_CODES[code] ?? ''}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    'Content-Type: text/plain',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ];
  socket.end(`${lines.join('\r\n')}\r\n\r\n${body}`, () => socket.destroySoon());
}
