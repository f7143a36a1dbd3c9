import type { WebSocket } from 'ws';
import type { Protocol } from '../negotiate-protocol.ts';
import { fired } from '../session.ts';
import type { SessionContext } from '../session.ts';
import type { PortForwardCall } from '../stream-call.ts';
import { ChannelSocket } from '../websocket/channel-socket.ts';
import { forwardOne } from './forward-one.ts';

/**
 * Port-forward by channels, as older clients do it: one connection for each port that the request names, with a channel for its bytes
 * and one for what went wrong. Each channel's first message from us is the port, as two bytes with the lower one first.
 */
export async function servePortForwardOverWebSocket(
  context: SessionContext,
  call: PortForwardCall,
  protocol: Protocol & { wire: 'websocket' },
  webSocket: WebSocket,
): Promise<void> {
  const { clock, limits } = context;
  const { codec } = protocol;
  const channels = new ChannelSocket({ webSocket, clock, codec, closesChannels: false, idleMs: limits.idleMs });
  const connections = call.request.port.map(async (port, index) => {
    const data = channels.channel(index * 2, 'both');
    const error = channels.channel(index * 2 + 1, 'output');
    const number = Buffer.alloc(2);
    number.writeUInt16LE(port);
    data.write(number);
    error.write(number);
    await forwardOne(context, call, channels.gone, { port, data, error });
  });
  await Promise.all(connections);
  const limit = clock.after(limits.finishMs, () => channels.cut());
  channels.close();
  await fired(channels.gone);
  limit.cancel();
}
