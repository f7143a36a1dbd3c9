import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Protocol } from './negotiate-protocol.ts';
import { servePortForwardOverSpdy } from './port-forward/over-spdy.ts';
import { servePortForwardOverWebSocket } from './port-forward/over-websocket.ts';
import { serveCommandOverSpdy } from './remote-command/over-spdy.ts';
import { serveCommandOverWebSocket } from './remote-command/over-websocket.ts';
import type { SessionContext } from './session.ts';
import type { StreamCall } from './stream-call.ts';
import { acceptWebSocket, bytesThrough } from './websocket/accept-websocket.ts';

/** An upgrade that has been granted. */
export interface Upgrade {
  readonly request: IncomingMessage;
  readonly socket: Socket;
  /** What the client has sent after its request. */
  readonly head: Buffer;
}

/** Answers the upgrade and serves the session until its connection is over. */
export async function serveSession(
  context: SessionContext,
  call: StreamCall,
  protocol: Protocol,
  upgrade: Upgrade,
): Promise<void> {
  const { request, socket, head } = upgrade;
  if (protocol.wire === 'spdy') {
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n' +
        `X-Stream-Protocol-Version: ${protocol.name}\r\n\r\n`,
    );
    if (head.length > 0) socket.unshift(head);
    await overSpdy(context, call, protocol.name, socket);
    return;
  }
  const options = { clock: context.clock, protocol: protocol.name, finishMs: context.limits.finishMs };
  const webSocket = await acceptWebSocket(request, socket, head, options);
  if (protocol.wire === 'spdy-in-websocket') {
    await overSpdy(context, call, protocol.name, await bytesThrough(webSocket));
  } else if (call.kind === 'portforward') {
    await servePortForwardOverWebSocket(context, call, protocol, webSocket);
  } else {
    await serveCommandOverWebSocket(context, call, protocol, webSocket);
  }
}

async function overSpdy(context: SessionContext, call: StreamCall, protocol: string, transport: Duplex): Promise<void> {
  if (call.kind === 'portforward') await servePortForwardOverSpdy(context, call, transport);
  else await serveCommandOverSpdy(context, call, protocol, transport);
}
