import net from 'node:net';
import { systemClock } from '../lib/clock.ts';
import type { Clock } from '../lib/clock.ts';
import { unavailable } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { listenUnix, unixSocketPath } from '../lib/unix-socket.ts';
import { ImageServiceService, RuntimeServiceService } from './gen/api.ts';
import { Http2Connection } from './http2/connection.ts';
import type { ExtraService } from './rpc.ts';
import { CallHost } from './serve-rpc.ts';
import type { ImageService, RuntimeService } from './services.ts';

export interface CriServerOptions {
  /** `unix:///absolute/path`, or the path alone. */
  readonly listen: string;
  readonly runtime?: Partial<RuntimeService>;
  readonly image?: Partial<ImageService>;
  readonly extraServices?: readonly ExtraService[];
  readonly log: Log;
  readonly clock?: Clock;
  /** How long running calls may go on after `close` (default 2 s); then they end with Unavailable. */
  readonly closeGraceMs?: number;
}

export interface CriServer {
  readonly path: string;
  /** Accepts nothing more, lets running calls end, then cuts the connections. The socket's name is gone at once. */
  close(): Promise<void>;
}

const CLOSE_GRACE_MS = 2_000;
/** For the last answers to leave the process. */
const FLUSH_MS = 100;

/**
 * Serves CRI v1 on a unix socket that only root may use. The socket of a dead daemon is replaced; that of a living one is
 * refused with FailedPrecondition. Whatever bytes a client sends, the worst that happens is the end of its own connection.
 */
export async function serveCri(options: CriServerOptions): Promise<CriServer> {
  const clock = options.clock ?? systemClock;
  const log = options.log.child({ component: 'cri' });
  const services: ExtraService[] = [
    { definition: RuntimeServiceService, implementation: methodsOf(options.runtime) },
    { definition: ImageServiceService, implementation: methodsOf(options.image) },
    ...(options.extraServices ?? []),
  ];
  const host = new CallHost(services, { log, clock });
  const connections = new Set<Http2Connection>();
  const listener = net.createServer((socket) => {
    const connection = new Http2Connection(socket, {
      log,
      clock,
      onRequest: (stream, fields) => host.accept(stream, fields),
    });
    connections.add(connection);
    socket.once('close', () => connections.delete(connection));
  });
  const bound = await listenUnix(listener, unixSocketPath(options.listen));
  listener.on('error', (error) => log.warn({ error: error.message }, 'accepting a connection failed'));
  log.info({ path: bound.path }, 'serving');

  return {
    path: bound.path,
    close: async () => {
      await bound.close();
      await Promise.race([host.idle(), clock.sleep(options.closeGraceMs ?? CLOSE_GRACE_MS)]);
      if (host.size > 0) {
        host.abortAll(unavailable('the daemon is shutting down'));
        await clock.sleep(FLUSH_MS);
      }
      for (const connection of connections) connection.leave();
      await Promise.race([Promise.all([...connections].map(({ closed }) => closed)), clock.sleep(FLUSH_MS)]);
      for (const connection of connections) connection.cut();
    },
  };
}

function methodsOf(service: object | undefined): Readonly<Record<string, unknown>> {
  return (service ?? {}) as Readonly<Record<string, unknown>>;
}
