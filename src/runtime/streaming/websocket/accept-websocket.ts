import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';

/** The largest message that is read, as in the field: some clients send a whole file as one. */
const MAX_MESSAGE_BYTES = 32 * 1024 * 1024;

/** Finishes the handshake. Nothing is read yet: whoever takes the WebSocket resumes it. `finishMs` is what the client has to read the rest and to answer our closing message. */
export async function acceptWebSocket(
  request: IncomingMessage,
  socket: Socket,
  head: Buffer,
  options: { readonly protocol: string | undefined; readonly finishMs: number },
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

/** The messages as one stream of bytes in each direction: for a protocol that is tunnelled. */
export async function bytesThrough(webSocket: WebSocket): Promise<Duplex> {
  const { createWebSocketStream } = await import('ws');
  return createWebSocketStream(webSocket);
}
