import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { Clock } from '../../../lib/clock.ts';

/** The largest message that is read, as in the field: some clients send a whole file as one. */
const MAX_MESSAGE_BYTES = 32 * 1024 * 1024;
/** For the client to close its side of a connection over which both have said that they close (RFC 6455, 7.1.1). */
const LINGER_MS = 2_000;

export interface AcceptOptions {
  readonly clock: Clock;
  readonly protocol: string | undefined;
  /** What the client has to read the rest and to answer our closing message. */
  readonly finishMs: number;
}

/** Finishes the handshake. Nothing is read yet: whoever takes the WebSocket resumes it. */
export async function acceptWebSocket(
  request: IncomingMessage,
  socket: Socket,
  head: Buffer,
  options: AcceptOptions,
): Promise<WebSocket> {
  // 30 ms and some MB that a daemon whose clients speak SPDY never needs.
  const { WebSocketServer } = await import('ws');
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload: MAX_MESSAGE_BYTES,
    perMessageDeflate: false,
    ...{ closeTimeout: options.finishMs },
  });
  // The library refuses the name of the tunnelled SPDY, which has a slash in it. So it does not get to see the names.
  delete request.headers['sec-websocket-protocol'];
  server.on('headers', (headers) => {
    if (options.protocol !== undefined) headers.push(`Sec-WebSocket-Protocol: ${options.protocol}`);
  });
  resetIfItLingers(socket, options.clock);
  return await new Promise((resolve, reject) => {
    server.once('wsClientError', (error, refused) => {
      refused.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n');
      reject(error);
    });
    server.handleUpgrade(request, socket, head, (webSocket) => {
      webSocket.pause();
      resolve(webSocket);
    });
  });
}

/** Our side of the connection ends when both have said that they close. By then nothing of ours is unread that the client still wanted. */
function resetIfItLingers(socket: Socket, clock: Clock): void {
  socket.once('finish', () => {
    const timer = clock.after(LINGER_MS, () => socket.resetAndDestroy());
    socket.once('close', () => timer.cancel());
  });
}

/** The messages as one stream of bytes in each direction: for a protocol that is tunnelled. */
export async function bytesThrough(webSocket: WebSocket): Promise<Duplex> {
  const { createWebSocketStream } = await import('ws');
  return createWebSocketStream(webSocket);
}
