import type { Duplex } from 'node:stream';
import type { Timer } from '../../../lib/clock.ts';
import { IdleWatch } from '../idle-watch.ts';
import { fired } from '../session.ts';
import type { SessionContext } from '../session.ts';
import { SpdyConnection } from '../../../lib/spdy/spdy-connection.ts';
import type { StreamOffer } from '../../../lib/spdy/spdy-connection.ts';
import type { SpdyStream } from '../../../lib/spdy/spdy-stream.ts';
import type { PortForwardCall } from '../stream-call.ts';
import { forwardOne } from './forward-one.ts';

/** The two streams of one connection to a port, until both are there. */
interface Pair {
  readonly port: number;
  data?: SpdyStream;
  error?: SpdyStream;
  readonly tooLate: Timer;
}

/**
 * portforward.k8s.io: for each connection the client opens a stream for what went wrong and one for the bytes, which belong together by
 * their request id. Ends when the client closes.
 */
export async function servePortForwardOverSpdy(
  context: SessionContext,
  call: PortForwardCall,
  socket: Duplex,
): Promise<void> {
  const { op, clock, limits } = context;
  const pairs = new Map<string, Pair>();
  const idle = new IdleWatch(clock, limits.idleMs, () => connection.destroy('nothing came or went for too long'));
  const connection = new SpdyConnection({
    transport: socket,
    clock,
    log: op.log,
    active: idle.touch,
    onStream: (offer) => onStream(offer),
  });

  const onStream = (offer: StreamOffer): void => {
    const type = offer.headers.get('streamtype');
    const port = portIn(offer.headers.get('port'));
    if ((type !== 'data' && type !== 'error') || port === undefined) {
      offer.refuse();
      return;
    }
    // Old clients send no id; they open the pair's streams one after the other, the one for errors first.
    const id = offer.headers.get('requestid') ?? `of stream ${type === 'error' ? offer.id : offer.id - 2}`;
    const pair = pairs.get(id) ?? newPair(id, port);
    if (pair[type] !== undefined || pair.port !== port) {
      offer.refuse();
      return;
    }
    pair[type] = offer.accept(type === 'data' ? 'both' : 'output');
    if (pair.data === undefined || pair.error === undefined) return;
    pairs.delete(id);
    pair.tooLate.cancel();
    void forwardOne(context, call, connection.gone, { port, data: pair.data, error: pair.error });
  };
  const newPair = (id: string, port: number): Pair => {
    const tooLate = clock.after(limits.streamCreationMs, () => {
      pairs.delete(id);
      pair.data?.destroy();
      pair.error?.end(
        `the client has not opened the second stream of request ${id} within ${limits.streamCreationMs} ms`,
      );
    });
    const pair: Pair = { port, tooLate };
    pairs.set(id, pair);
    return pair;
  };

  await fired(connection.gone);
  idle.close();
  for (const pair of pairs.values()) pair.tooLate.cancel();
}

function portIn(text: string | undefined): number | undefined {
  if (text === undefined || !/^\d{1,5}$/.test(text)) return undefined;
  const port = Number(text);
  return port >= 1 && port <= 0xffff ? port : undefined;
}
