import type { Duplex } from 'node:stream';
import type { PortForwardSession } from '../../kube/streams/pod-streams.ts';
import { line, type CliContext } from '../context.ts';
import type { LocalConnection } from './listen-on-ports.ts';

/** Joins a connection to one of our ports to the pod's, until both halves are over. What goes wrong is said, and harms no other connection. */
export async function forwardConnection(
  context: CliContext,
  session: PortForwardSession,
  { socket, pair }: LocalConnection,
): Promise<void> {
  await line(context.out, `Handling connection for ${pair.local}`);
  const { data, failure } = session.open(pair.remote);
  const closed = Promise.all([join(socket, data), join(data, socket)]);
  const why = await failure;
  if (why !== undefined && !session.over.aborted) {
    await line(context.err, `an error occurred forwarding ${pair.local} -> ${pair.remote}: ${why}`);
    socket.destroy();
    data.destroy();
  }
  await closed;
}

/** Sends on what `from` reads, and its end; where it breaks off, so does `to`. Resolves when `from` is closed. */
async function join(from: Duplex, to: Duplex): Promise<void> {
  from.on('error', () => undefined);
  from.pipe(to);
  await new Promise<void>((resolve) => {
    from.once('close', resolve);
    if (from.destroyed) resolve();
  });
  if (!from.readableEnded) to.destroy();
}
