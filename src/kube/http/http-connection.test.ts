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

test('an address where nobody can answer is said to be one', async () => {
  const tooLong = `unix:///tmp/${'x'.repeat(200)}/api.sock`;
  for (const address of ['unix:///nowhere/api.sock', tooLong, 'http://127.0.0.1:1']) {
    const connection = new HttpConnection(address);
    await assert.rejects(connection.ask(op, { method: 'GET', path: ['version'] }), { kind: 'Unavailable' }, address);
    connection.close();
  }
});

test('what is still being asked ends when the connection is closed', async () => {
  const silent = createServer();
  await new Promise<void>((resolve) => {
    silent.listen(0, '127.0.0.1', resolve);
  });
  const connection = new HttpConnection(`http://127.0.0.1:${(silent.address() as AddressInfo).port}`);
  const asked = connection.ask(op, { method: 'GET', path: ['version'] });
  await new Promise((resolve) => silent.once('connection', resolve));
  connection.close();
  await assert.rejects(asked, { kind: 'Unavailable' });
  silent.close();
});
