import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { joinErrors, messageOf, unavailable } from '../../lib/errors.ts';
import { line, type CliContext } from '../context.ts';
import { shownAddress, type ListenAddress } from './listen-address.ts';
import type { PortPair } from './port-spec.ts';

/** A connection that somebody has made to one of our ports. */
export interface LocalConnection {
  readonly socket: Socket;
  /** With the port that it really has. */
  readonly pair: PortPair;
}

/**
 * Listens on every address for every pair, and says so. A port on which nobody can be heard is complained of; it fails if that is true of
 * all. Disposing of what it returns ends the listening, and not the connections.
 *
 * @throws Unavailable
 */
export async function listenOnPorts(
  context: CliContext,
  pairs: readonly PortPair[],
  addresses: readonly ListenAddress[],
  onConnection: (connection: LocalConnection) => void,
): Promise<Disposable> {
  const servers: Server[] = [];
  const close = (): void => {
    for (const server of servers) server.close();
  };
  try {
    const heard: boolean[] = [];
    for (const pair of pairs) heard.push(await listenForPair(context, pair, addresses, servers, onConnection));
    if (!heard.includes(true)) throw unavailable('unable to listen on any of the requested ports');
  } catch (error) {
    close();
    throw error;
  }
  return { [Symbol.dispose]: close };
}

async function listenForPair(
  context: CliContext,
  wanted: PortPair,
  addresses: readonly ListenAddress[],
  servers: Server[],
  onConnection: (connection: LocalConnection) => void,
): Promise<boolean> {
  let pair = wanted;
  const failures: (readonly [ListenAddress, Error])[] = [];
  for (const each of addresses) {
    try {
      // A port that any will do for is the same on every address.
      const listening = await listenOn(each.address, pair, onConnection);
      servers.push(listening.server);
      ({ pair } = listening);
      await line(context.out, `Forwarding from ${shownAddress(each.address, pair.local)} -> ${pair.remote}`);
    } catch (error) {
      failures.push([each, error instanceof Error ? error : new Error(messageOf(error))]);
    }
  }
  const localhost = addresses.filter(({ ofLocalhost }) => ofLocalhost);
  const failedLocalhost = failures.filter(([{ ofLocalhost }]) => ofLocalhost);
  const bad = failures.some(([{ ofLocalhost }]) => !ofLocalhost);
  if (!bad && (localhost.length === 0 || failedLocalhost.length < localhost.length)) return true;
  const why = messageOf(joinErrors(failures.map(([, error]) => error))).replaceAll('\n', '; ');
  await line(context.err, `Unable to listen on port ${pair.local}: ${why}`);
  return failures.length < addresses.length;
}

async function listenOn(
  address: string,
  { local, remote }: PortPair,
  onConnection: (connection: LocalConnection) => void,
): Promise<{ readonly server: Server; readonly pair: PortPair }> {
  // Either side may close its half and go on reading.
  const server = createServer({ allowHalfOpen: true, noDelay: true });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host: address, port: local, ipv6Only: true }, resolve);
  });
  const pair = { local: (server.address() as AddressInfo).port, remote };
  server.on('connection', (socket) => onConnection({ socket, pair }));
  return { server, pair };
}
