import assert from 'node:assert/strict';
import { once } from 'node:events';
import { afterEach, describe, test } from 'node:test';
import { pipeline } from 'node:stream/promises';
import { WebSocket } from 'ws';
import { internal } from '../../../lib/errors.ts';
import { FakeClock } from '../../../lib/fake-clock.ts';
import { FakeSpdyClient, upgrade } from '../fake-spdy-client.ts';
import { execRequest, portForwardRequest, serveFake, until } from '../fake-stream-handlers.ts';
import { FakeTunnel } from './fake-tunnel.ts';
import type { StreamHandlers, StreamingServer, TerminalSize } from '../streams.ts';

const servers: StreamingServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function serve(
  handlers: Partial<StreamHandlers>,
  options: Parameters<typeof serveFake>[1] = {},
): Promise<StreamingServer> {
  const server = await serveFake(handlers, options);
  servers.push(server);
  return server;
}

/** What a client has got, by channel, and how the connection ended. */
class Client {
  readonly webSocket: WebSocket;
  readonly got = new Map<number, Buffer[]>();
  readonly closed: Promise<unknown[]>;

  constructor(url: string, protocols: string[], base64 = false) {
    this.webSocket = new WebSocket(url.replace('http:', 'ws:'), protocols);
    this.closed = once(this.webSocket, 'close');
    this.closed.catch(() => undefined);
    this.webSocket.on('error', () => undefined);
    this.webSocket.on('message', (data: Buffer) => {
      const channel = base64 ? data[0]! - 48 : data[0]!;
      const bytes = base64 ? Buffer.from(data.toString('latin1', 1), 'base64') : data.subarray(1);
      this.got.set(channel, [...(this.got.get(channel) ?? []), bytes]);
    });
  }

  static async open(url: string, protocol: string): Promise<Client> {
    const client = new Client(url, [protocol], protocol.includes('base64'));
    await once(client.webSocket, 'open');
    return client;
  }

  text(channel: number): string {
    return Buffer.concat(this.got.get(channel) ?? []).toString();
  }

  send(channel: number, text: string): void {
    this.webSocket.send(Buffer.concat([Buffer.of(channel), Buffer.from(text)]));
  }
}

function webSocketRequest(protocol: string): Record<string, string> {
  return {
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
    'Sec-WebSocket-Protocol': protocol,
  };
}

const echo: StreamHandlers['exec'] = async (_op, _request, { stdin, stdout, stderr }) => {
  for await (const chunk of stdin!) stdout!.write(chunk);
  stderr?.write('done');
  return { exitCode: 3 };
};

describe('commands', () => {
  test('v5: stdin is closed by a message of its own; output, exit code, then a normal close', async () => {
    const server = await serve({ exec: echo });
    const client = await Client.open(server.execUrl(execRequest({ stdin: true, stderr: true })), 'v5.channel.k8s.io');
    assert.equal(client.webSocket.protocol, 'v5.channel.k8s.io');
    client.send(0, 'hello ');
    client.send(0, 'world');
    client.webSocket.send(Buffer.of(255, 0));
    assert.equal((await client.closed)[0], 1000);
    assert.equal(client.got.get(1)?.[0]?.length, 0, 'the first message is empty, by convention');
    assert.equal(client.text(1), 'hello world');
    assert.equal(client.text(2), 'done');
    assert.deepEqual((JSON.parse(client.text(3)) as { details: unknown }).details, {
      causes: [{ reason: 'ExitCode', message: '3' }],
    });
  });

  test('v4: the same, with no end of stdin', async () => {
    const server = await serve({
      exec: async (_op, _request, { stdin, stdout }) => {
        const [chunk] = (await once(stdin!, 'data')) as [Buffer];
        stdout!.write(chunk);
        return { exitCode: 0 };
      },
    });
    const client = await Client.open(server.execUrl(execRequest({ stdin: true })), 'v4.channel.k8s.io');
    // In v4 this is a channel like any other, and there is none with that number.
    client.webSocket.send(Buffer.of(255, 0));
    client.send(0, 'x');
    assert.equal((await client.closed)[0], 1000);
    assert.equal(client.text(1), 'x');
    assert.deepEqual(JSON.parse(client.text(3)), { metadata: {}, status: 'Success' });
  });

  test('in base64, and before v4 in words', async () => {
    const exec: StreamHandlers['exec'] = async (_op, _request, { stdin, stdout }) => {
      const [chunk] = (await once(stdin!, 'data')) as [Buffer];
      stdout!.write(chunk);
      return { exitCode: 7 };
    };
    for (const [protocol, outcome] of [
      ['v4.base64.channel.k8s.io', /"ExitCode"/],
      ['base64.channel.k8s.io', /^command terminated with non-zero exit code: exit status 7$/],
    ] as const) {
      const server = await serve({ exec });
      const client = await Client.open(server.execUrl(execRequest({ stdin: true })), protocol);
      client.webSocket.send(`0${Buffer.from('grüße\0').toString('base64')}`);
      await client.closed;
      assert.equal(client.text(1), 'grüße\0');
      assert.match(client.text(3), outcome);
    }
  });

  test('a client that asks for no protocol speaks the first one', async () => {
    const server = await serve({ exec: () => Promise.reject(internal('no luck')) });
    const client = new Client(server.execUrl(execRequest()), []);
    await client.closed;
    assert.equal(client.text(3), 'no luck');
  });

  test('a terminal has sizes', async () => {
    const server = await serve({
      exec: async (_op, _request, { resizes, stdout }) => {
        for await (const size of resizes) {
          stdout!.write(JSON.stringify(size satisfies TerminalSize));
          break;
        }
        return { exitCode: 0 };
      },
    });
    const client = await Client.open(server.execUrl(execRequest({ tty: true })), 'v5.channel.k8s.io');
    client.send(4, '{"Width":80,"Height":24}');
    await client.closed;
    assert.equal(client.text(1), '{"width":80,"height":24}');
  });

  test('messages that are empty, of no channel, or of one that only goes out, are nothing', async () => {
    const server = await serve({ exec: echo });
    const client = await Client.open(server.execUrl(execRequest({ stdin: true })), 'v5.channel.k8s.io');
    for (const bytes of [[], [1], [1, 65], [3, 65], [9, 65], [255], [255, 9], [255, 1], [4, 123]]) {
      client.webSocket.send(Buffer.from(bytes));
    }
    client.send(0, 'x');
    client.webSocket.send(Buffer.of(255, 0));
    client.send(0, 'after the end');
    client.webSocket.send(Buffer.of(255, 0));
    await client.closed;
    assert.equal(client.text(1), 'x');
  });

  test('a protocol that is not spoken here is refused', async () => {
    const server = await serve({});
    const client = new Client(server.execUrl(execRequest()), ['v9.channel.k8s.io']);
    const [error] = (await once(client.webSocket, 'error')) as [Error];
    assert.match(error.message, /400/);
  });

  test('a stdin that nobody reads holds the client up; one that vanishes is noticed all the same', async () => {
    const clock = new FakeClock();
    const gone = { seen: false };
    const server = await serve(
      {
        exec: async (op) => {
          await new Promise((resolve) => op.signal.addEventListener('abort', resolve));
          gone.seen = true;
          return { exitCode: 0 };
        },
      },
      { clock },
    );
    const client = await Client.open(server.execUrl(execRequest({ stdin: true })), 'v5.channel.k8s.io');
    for (let index = 0; index < 1_000; index += 1) client.send(0, 'x'.repeat(65_536));
    let before = -1;
    await until('nothing more is taken', () => {
      const still = client.webSocket.bufferedAmount === before;
      before = client.webSocket.bufferedAmount;
      return still;
    });
    assert.ok(before > 20_000_000, `${before} bytes are still on the client’s side`);
    client.webSocket.terminate();
    for (let round = 0; round < 40 && !gone.seen; round += 1) {
      await clock.advance(5_000);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    assert.equal(gone.seen, true);
  });

  test('a client that says that it closes and does not is cut off within seconds, and its command ends', async () => {
    const clock = new FakeClock();
    let cutOff = false;
    const exec: StreamHandlers['exec'] = async (op, _request, { stdout }) => {
      stdout!.write('hello');
      await once(op.signal, 'abort');
      cutOff = true;
      return { exitCode: 0 };
    };
    const server = await serve({ exec }, { clock });
    const request = webSocketRequest('v5.channel.k8s.io');
    const { socket } = await upgrade(server.execUrl(execRequest()), request, 'GET', true);
    socket.on('error', () => undefined);
    socket.write(Buffer.from('8882a1b2c3d4a25a', 'hex'));
    await once(socket.resume(), 'end');
    await clock.advance(1_900);
    assert.equal(cutOff, false);
    await clock.advance(200);
    await until('the command is ended', () => cutOff);
    await until('the client is cut off', () => !socket.write('x') && socket.destroyed);
  });

  test('what a client sends after the command has ended is dropped, and it hears the outcome', async () => {
    const server = await serve({ exec: () => Promise.resolve({ exitCode: 0 }) });
    const client = await Client.open(server.execUrl(execRequest({ stdin: true })), 'v5.channel.k8s.io');
    for (let index = 0; index < 200; index += 1) client.send(0, 'x'.repeat(65_536));
    assert.equal((await client.closed)[0], 1000);
    assert.match(client.text(3), /Success/);
  });
});

describe('ports', () => {
  const echoPort: StreamHandlers['portForward'] = async (_op, _request, port, data) => {
    data.write(`port ${port}: `);
    await pipeline(data, data);
  };

  test('SPDY tunnelled in WebSocket, as the newest clients do it', async () => {
    const server = await serve({ portForward: echoPort });
    const { socket, head } = await upgrade(
      server.portForwardUrl(portForwardRequest()),
      webSocketRequest('SPDY/3.1+portforward.k8s.io'),
      'GET',
    );
    assert.match(head, /sec-websocket-protocol: spdy\/3\.1\+portforward\.k8s\.io/);
    const client = new FakeSpdyClient(new FakeTunnel(socket));
    const error = await client.open({ streamtype: 'error', port: '80', requestid: '0' });
    await error.end();
    const data = await client.open({ streamtype: 'data', port: '80', requestid: '0' });
    const sent = 'y'.repeat(300_000);
    await data.write(sent);
    await data.end();
    assert.equal(await data.text(), `port 80: ${sent}`);
    assert.equal(await error.text(), '');
    client.socket.destroy();
    await client.closed.promise;
  });

  test('by channels, one pair for each port of the request', async () => {
    const server = await serve({
      portForward: async (_op, _request, port, data) => {
        if (port === 81) throw internal('connection refused');
        data.write('hello');
        const [chunk] = (await once(data, 'data')) as [Buffer];
        data.write(chunk);
      },
    });
    const client = await Client.open(server.portForwardUrl(portForwardRequest(80, 81)), 'v4.channel.k8s.io');
    client.send(0, ' you');
    assert.equal((await client.closed)[0], 1000);
    assert.equal(client.text(0), 'P\0hello you');
    assert.equal(client.text(1), 'P\0');
    assert.equal(client.text(2), 'Q\0');
    assert.equal(client.text(3), 'Q\0error forwarding port 81 to pod sandbox p1: connection refused');
  });
});
