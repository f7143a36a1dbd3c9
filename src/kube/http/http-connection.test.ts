import assert from 'node:assert/strict';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { test } from 'node:test';
import { silentLog } from '../../lib/log.ts';
import { HttpConnection } from './http-connection.ts';

const op = { signal: new AbortController().signal, log: silentLog };
const ANSWER = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}';

/** Keeps each connection open as HTTP/1.1 does, and drops it as soon as a second question comes: an idle time that ran out. */
async function forgetfulServer(): Promise<{ address: string; close: () => void }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('data', () => {
      socket.write(ANSWER);
      socket.once('data', () => socket.resetAndDestroy());
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const close = (): void => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  return { address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}

test('no question is put on a connection that the server may be closing', async () => {
  const server = await forgetfulServer();
  const connection = new HttpConnection(server.address);
  try {
    for (let i = 0; i < 5; i++) {
      assert.deepEqual((await connection.ask(op, { method: 'GET', path: ['version'] })).body, {});
    }
  } finally {
    connection.close();
    server.close();
  }
});
