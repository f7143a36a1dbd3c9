import { Server, ServerCredentials } from '@grpc/grpc-js';
import type { ServiceDefinition } from '@grpc/grpc-js';
import net from 'node:net';
import { systemClock } from '../lib/clock.ts';
import type { Clock } from '../lib/clock.ts';
import { unavailable } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { listenUnix, unixSocketPath } from '../lib/unix-socket.ts';
import { AuthoritySocket } from './authority-socket.ts';
import { ImageServiceService, RuntimeServiceService } from './gen/api.ts';
import type { ExtraService, RpcService } from './rpc.ts';
import { forgiveLateResponses } from './late-responses.ts';
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

/** kubelet's and crictl's own limit on a message that they receive. Requests are small; a list may be larger than this. */
const MAX_REQUEST_BYTES = 16 * 1024 * 1024;
const UNLIMITED = -1;
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
  const host = new CallHost({ log, clock });
  const server = new Server({
    'grpc.max_receive_message_length': MAX_REQUEST_BYTES,
    'grpc.max_send_message_length': UNLIMITED,
    'grpc.enable_channelz': 0,
  });
  const services: ExtraService[] = [
    { definition: RuntimeServiceService, implementation: methodsOf(options.runtime) },
    { definition: ImageServiceService, implementation: methodsOf(options.image) },
    ...(options.extraServices ?? []),
  ];
  for (const { definition, implementation } of services) {
    server.addService(bytesOut(definition), host.handlers(definition, implementation as never));
  }

  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  const connections = new Set<net.Socket>();
  const listener = net.createServer((socket) => {
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
    const connection = new AuthoritySocket(socket);
    connection.on('error', (error) => log.debug({ error: error.message }, 'connection failed'));
    injector.injectConnection(connection);
  });
  const bound = await listenUnix(listener, unixSocketPath(options.listen));
  const lateResponses = forgiveLateResponses(log);
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
      await Promise.race([shutDown(server), clock.sleep(FLUSH_MS)]);
      server.forceShutdown();
      for (const socket of connections) socket.destroy();
      lateResponses[Symbol.dispose]();
    },
  };
}

function methodsOf(service: object | undefined): Readonly<Record<string, unknown>> {
  return (service ?? {}) as Readonly<Record<string, unknown>>;
}

/** Responses reach grpc-js as bytes already (see serve-rpc.ts). */
function bytesOut(service: RpcService): ServiceDefinition {
  const same = (bytes: Buffer): Buffer => bytes;
  const methods = Object.entries(service).map(([name, method]) => [name, { ...method, responseSerialize: same }]);
  return Object.fromEntries(methods) as ServiceDefinition;
}

/** Resolves when every session has ended by itself. */
function shutDown(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.tryShutdown(() => resolve());
  });
}
