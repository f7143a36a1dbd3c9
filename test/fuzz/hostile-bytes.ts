import { connect, createServer, type Socket } from 'node:net';
import { once } from 'node:events';
import type { Random } from '../soak/random.ts';
import { bytesOf } from './random-message.ts';

/** Where to connect: a unix socket's path, or a port of loopback. */
export type Target = { readonly path: string } | { readonly host: string; readonly port: number };

/** Longer than any honest server needs to answer what it has in full. */
const HANG_UP_MS = 150;

/** Sends it in pieces, and hangs up in one way or the other; never fails, whatever the other side does. */
export async function throwAt(target: Target, data: Buffer, random: Random): Promise<void> {
  const cut = random.between(0, data.length);
  // Only TCP has a reset of its own.
  const rude = 'port' in target && random.chance(0.5);
  await new Promise<void>((resolve) => {
    const socket: Socket = connect(target, () => {
      socket.write(data.subarray(0, cut));
      setTimeout(() => socket.write(data.subarray(cut), () => undefined), 5);
    });
    socket.on('data', () => undefined).on('error', () => undefined);
    socket.on('close', () => resolve());
    setTimeout(() => (rude ? socket.resetAndDestroy() : socket.destroy()), HANG_UP_MS);
  });
}

/** What a client sends while `use` talks to the server through a proxy at `at` (a path; a port of loopback, 0 for any), as one connection's bytes. */
export async function recordClient(
  target: Target,
  at: string | 0,
  use: (port: number) => Promise<unknown>,
): Promise<Buffer> {
  const sent: Buffer[] = [];
  const sockets: Socket[] = [];
  const server = createServer((client) => {
    const upstream = connect(target);
    sockets.push(client, upstream);
    client.on('data', (chunk: Buffer) => {
      sent.push(chunk);
      upstream.write(chunk);
    });
    upstream.pipe(client);
    for (const socket of [client, upstream]) socket.on('error', () => undefined);
  });
  if (at === 0) server.listen(0, '127.0.0.1');
  else server.listen(at);
  await once(server, 'listening');
  const address = server.address();
  try {
    await use(typeof address === 'object' ? (address?.port ?? 0) : 0);
    return Buffer.concat(sent);
  } finally {
    for (const socket of sockets) socket.destroy();
    server.close();
  }
}

/** The recording cut off anywhere, with bytes changed, with something in between, or twice. */
export function damaged(recording: Buffer, random: Random): Buffer {
  const at = random.between(0, recording.length);
  switch (random.between(0, 3)) {
    case 0:
      return recording.subarray(0, at);
    case 1: {
      const copy = Buffer.from(recording);
      for (let i = 0; i < random.between(1, 8); i++) copy[random.between(0, copy.length - 1)] = random.between(0, 255);
      return copy;
    }
    case 2:
      return Buffer.concat([
        recording.subarray(0, at),
        bytesOf(random.between(1, 200), random),
        recording.subarray(at),
      ]);
    default:
      return Buffer.concat([recording, recording.subarray(at)]);
  }
}
