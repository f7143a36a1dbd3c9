import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Op } from '../../src/lib/abort.ts';
import {
  attachRequest,
  execRequest,
  openCommand,
  portForwardRequest,
  serveFake,
  until,
} from '../../src/runtime/streaming/fake-stream-handlers.ts';
import type { RemoteCommand, StreamHandlers, StreamingServer } from '../../src/runtime/streaming/streams.ts';
import { damaged } from '../fuzz/hostile-bytes.ts';
import { hostileFrames, hostileMessages } from '../fuzz/hostile-frames.ts';
import { bytesOf } from '../fuzz/random-message.ts';
import { Random } from '../soak/random.ts';
import { scaled } from '../support/scale.ts';

/** Another one draws another run; a failure says which it was. */
const SEED = Number(process.env['GANTRY_FUZZ_SEED'] ?? 20_261_122);
const CONNECTIONS = scaled({ small: 400, whole: 20_000 });
const SIDE_BY_SIDE = 16;
const MAX_GROWTH_BYTES = 40_000_000;
const HONEST = 'honest';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const faults: unknown[] = [];
const onFault = (error: unknown): void => void faults.push(error);
let running = 0;

/** What handlers do: read all or nothing, write much, fail, and end when nobody is there any more. */
async function anyhow(op: Op, remote: Pick<RemoteCommand, 'stdin' | 'stdout'>, random: Random): Promise<void> {
  running += 1;
  const gone = new Promise<void>((resolve) => {
    if (op.signal.aborted) resolve();
    else op.signal.addEventListener('abort', () => resolve(), { once: true });
  });
  try {
    switch (random.between(0, 4)) {
      case 0:
        remote.stdin?.resume();
        await gone;
        break;
      case 1:
        while (!op.signal.aborted && random.chance(0.98)) {
          await new Promise((resolve) => remote.stdout?.write(Buffer.alloc(100_000), resolve) ?? resolve(undefined));
        }
        break;
      case 2:
        throw new Error('no luck');
      case 3:
        if (remote.stdin !== undefined && remote.stdout !== undefined) remote.stdin.pipe(remote.stdout);
        await gone;
        break;
      default:
        await gone;
    }
  } finally {
    running -= 1;
  }
}

const random = new Random(SEED);
let server: StreamingServer;

before(async () => {
  process.on('uncaughtException', onFault).on('unhandledRejection', onFault);
  const handlers: StreamHandlers = {
    exec: async (op, _request, remote) => {
      for await (const size of remote.resizes) if (size.width > 0) break;
      await anyhow(op, remote, random.fork());
      return { exitCode: random.between(-1, 300) };
    },
    attach: async (op, request, remote) => {
      if (request.containerId === HONEST) remote.stdout?.write('served');
      else await anyhow(op, remote, random.fork());
    },
    portForward: (op, _request, _port, data) => anyhow(op, { stdin: data, stdout: data }, random.fork()),
  };
  // Long enough for the honest client, which shares this process with sixteen others on a machine that may be busy: timers come before what has arrived.
  server = await serveFake(handlers, { limits: { streamCreationMs: 5_000, finishMs: 3_000, idleMs: 5_000 } });
});

after(async () => {
  process.off('uncaughtException', onFault).off('unhandledRejection', onFault);
  await server.close();
});

const PROTOCOLS = {
  exec: ['v4.channel.k8s.io', 'v3.channel.k8s.io', 'channel.k8s.io', 'v5.channel.k8s.io', 'base64.channel.k8s.io', 'x'],
  portforward: ['portforward.k8s.io', 'SPDY/3.1+portforward.k8s.io', 'v4.channel.k8s.io', 'x'],
} as const;

function urlFor(draw: Random): { url: URL; protocol: string } {
  if (draw.chance(0.4)) {
    return {
      url: new URL(server.portForwardUrl(portForwardRequest(80, 81))),
      protocol: draw.pick(PROTOCOLS.portforward),
    };
  }
  const all = { stdin: draw.chance(0.7), stdout: true, tty: draw.chance(0.3) };
  const asked = draw.chance(0.5) ? server.execUrl(execRequest(all)) : server.attachUrl(attachRequest(all));
  return { url: new URL(asked), protocol: draw.pick(PROTOCOLS.exec) };
}

/** All that one client says. */
async function hostileClient(draw: Random): Promise<{ target: URL; parts: Buffer[] }> {
  const { url, protocol } = urlFor(draw);
  if (draw.chance(0.1)) return { target: url, parts: [bytesOf(draw.between(1, 30_000), draw)] };
  const isSpdy = draw.chance(0.5) && !protocol.includes('+');
  const upgrade = isSpdy
    ? `Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: ${protocol}`
    : `Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: ${protocol}`;
  const request = Buffer.from(
    `GET ${url.pathname} HTTP/1.1\r\nHost: ${url.host}\r\nConnection: Upgrade\r\n${upgrade}\r\n\r\n`,
  );
  const frames = await hostileFrames(draw, draw.between(0, 12));
  let at = 0;
  const body = isSpdy
    ? frames
    : hostileMessages(draw, draw.between(0, 40), () => frames.subarray(at, (at += draw.between(0, 4_000))));
  const first = draw.chance(0.1) ? damaged(request, draw) : request;
  return { target: url, parts: [first, draw.chance(0.3) ? damaged(body, draw) : body] };
}

async function attack(draw: Random): Promise<void> {
  const { target, parts } = await hostileClient(draw);
  const socket: Socket = connect(Number(target.port), target.hostname);
  const closed = once(socket, 'close').catch(() => undefined);
  socket.on('error', () => undefined);
  const reads = draw.chance(0.7);
  if (reads) socket.resume();
  for (const part of parts) {
    const cut = draw.between(0, part.length);
    socket.write(part.subarray(0, cut));
    if (draw.chance(0.5)) await new Promise((resolve) => setTimeout(resolve, draw.between(1, 10)));
    socket.write(part.subarray(cut));
  }
  await new Promise((resolve) => setTimeout(resolve, draw.between(1, 150)));
  if (draw.chance(0.3)) socket.resetAndDestroy();
  else socket.destroy();
  await closed;
}

async function honest(): Promise<void> {
  const { client, streams } = await openCommand(server.attachUrl(attachRequest({ containerId: HONEST })), ['stdout']);
  assert.equal(await streams['stdout']?.text(), 'served');
  await client.leave();
}

test(`garbage of all kinds, seed ${SEED}: nothing breaks, and nothing is left`, { timeout: 600_000 }, async () => {
  const held = (): number => {
    collectGarbage();
    const { heapUsed, external, arrayBuffers } = process.memoryUsage();
    return heapUsed + external + arrayBuffers;
  };
  const draws = Array.from({ length: CONNECTIONS }, () => random.fork());
  const worker = async (): Promise<void> => {
    for (let draw = draws.pop(); draw !== undefined; draw = draws.pop()) {
      await attack(draw);
      if (draws.length % 50 === 0) await honest();
    }
  };
  const first = Array.from({ length: 32 }, () => random.fork());
  for (const draw of first) await attack(draw);
  const before = held();
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, worker));
  assert.deepEqual(faults, []);
  await until('every handler has ended', () => running === 0);
  await until('every connection is closed', () => {
    const open = process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length;
    return open === 0;
  });
  await honest();
  assert.deepEqual(faults, []);
  let grown = Infinity;
  // Buffers are given back by a thread of V8's, after the collection.
  await until('all is let go of', () => (grown = held() - before) < MAX_GROWTH_BYTES).catch(() => undefined);
  assert.ok(grown < MAX_GROWTH_BYTES, `${grown} bytes more are held`);
});
