import type { IncomingMessage } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { http } from '../../lib/node-http.ts';

/** One connection that a {@link FakeStreamingServer} has agreed to. */
export interface FakeStream {
  readonly request: IncomingMessage;
  readonly socket: Socket;
  /** What came behind the request already. */
  readonly head: Buffer;
}

export interface FakeStreamingServer extends AsyncDisposable {
  /** What CRI's Exec would answer with. */
  readonly url: string;
  /** The connections, in the order in which they came. */
  readonly next: () => Promise<FakeStream>;
}

/**
 * A runtime's streaming server as far as the API sees it: it agrees to what comes at its URL with a 101 of these header lines, and what is said
 * from then on is the test's affair. Any other path is refused with a 404 in plain text.
 */
export async function fakeStreamingServer(headers: readonly string[] = ['Upgrade: x']): Promise<FakeStreamingServer> {
  const arrived: FakeStream[] = [];
  const waiting: ((stream: FakeStream) => void)[] = [];
  const sockets = new Set<Socket>();
  const server = http.createServer();
  server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    if (request.url !== PATH) {
      socket.end(
        'HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nunknown or used token\n',
      );
      return;
    }
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n${headers.join('\r\n')}\r\n\r\n`);
    const stream = { request, socket, head };
    const waits = waiting.shift();
    if (waits === undefined) arrived.push(stream);
    else waits(stream);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}${PATH}`,
    next: () => {
      const stream = arrived.shift();
      if (stream !== undefined) return Promise.resolve(stream);
      return new Promise((resolve) => {
        waiting.push(resolve);
      });
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const PATH = '/exec/one-time-token?x=1';
