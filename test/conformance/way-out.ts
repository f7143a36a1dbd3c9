import { createServer as createHttpServer, request as httpRequest } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream';

/**
 * How a daemon in a network namespace of its own reaches registries: an HTTP proxy outside, on a unix socket, which no network
 * namespace keeps apart, and a port inside that hands each connection on to it.
 */

/** Serves until it is closed. */
export interface Listening extends AsyncDisposable {
  /** 0 for a unix socket's. */
  readonly port: number;
}

/** The proxy: CONNECT for https, whole addresses for http. It is on the namespace's side that has the network. */
export async function openWayOut(path: string): Promise<Listening> {
  const server = createHttpServer(forward);
  server.on('connect', (request: IncomingMessage, client: Duplex, head: Buffer) => {
    const { hostname, port } = new URL(`http://${request.url ?? ''}`);
    const upstream = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port === '' ? 443 : port) }, () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n');
      upstream.write(head);
      join(client, upstream);
    });
    upstream.once('error', (error) => client.end(`HTTP/1.1 502 ${inOneLine(error.message)}\r\n\r\n`));
    client.once('error', () => upstream.destroy());
  });
  return await listen(server, { path });
}

/** A client shows the first line of a proxy's refusal, and nothing else of it. */
function inOneLine(message: string): string {
  return message.replaceAll(/[^ -~]+/g, ' ').trim();
}

/** Inside: a port of loopback that is the proxy at `path`. */
export async function relayTo(path: string): Promise<Listening> {
  const server = createServer((client) => join(client, connect(path)));
  return await listen(server, { host: '127.0.0.1', port: 0 });
}

function forward(request: IncomingMessage, response: ServerResponse): void {
  const { method, headers, url = '' } = request;
  if (!url.startsWith('http://')) {
    response.writeHead(400).end('this is a proxy: give the whole address');
    return;
  }
  const upstream = httpRequest(url, { method, headers, agent: false }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    pipeline(answer, response, () => undefined);
  });
  upstream.once('error', (error) => {
    if (response.headersSent) response.destroy();
    else response.writeHead(502).end(error.message);
  });
  pipeline(request, upstream, () => undefined);
}

function join(one: Duplex, other: Duplex): void {
  // Either side's end or failure ends the other; what is not told here, the client sees.
  pipeline(one, other, () => undefined);
  pipeline(other, one, () => undefined);
}

async function listen(server: Server, at: { path: string } | { host: string; port: number }): Promise<Listening> {
  const open = new Set<Socket>();
  server.on('connection', (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(at, resolve);
  });
  const address = server.address();
  return {
    port: typeof address === 'object' ? (address?.port ?? 0) : 0,
    [Symbol.asyncDispose]: async () => {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
