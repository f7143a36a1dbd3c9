import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rename, rm } from 'node:fs/promises';
import { createServer, request, type Server } from 'node:http';
import { createServer as createSocketServer, type AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { listenerOf, within } from '../../conformance/peer-process.ts';
import { openWayOut, relayTo } from '../../conformance/way-out.ts';

async function listening(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

describe('the way out of a network namespace', () => {
  it('is a proxy on a unix socket, reached over a port: whole addresses and CONNECT, and a server that is not there is said', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'way-out-'));
    const upstream = createServer((incoming, response) => response.end(`asked for ${incoming.url ?? ''}`));
    const port = await listening(upstream);
    try {
      const path = join(dir, 'out.sock');
      await using proxy = await openWayOut(path);
      assert.equal(proxy.port, 0);
      await using relay = await relayTo(path);
      const ask = async (target: string): Promise<[number | undefined, string]> => {
        const asked = request({ port: relay.port, path: target, agent: false }).end();
        const [answer] = (await once(asked, 'response')) as [AsyncIterable<Buffer> & { statusCode?: number }];
        let text = '';
        for await (const chunk of answer) text += String(chunk);
        return [answer.statusCode, text];
      };
      assert.deepEqual(await ask(`http://127.0.0.1:${String(port)}/v2/`), [200, 'asked for /v2/']);
      assert.equal((await ask('/v2/'))[0], 400);
      assert.equal((await ask('http://127.0.0.1:1/'))[0], 502);

      const tunnel = request({
        port: relay.port,
        method: 'CONNECT',
        path: `127.0.0.1:${String(port)}`,
        agent: false,
      }).end();
      const [, socket] = (await once(tunnel, 'connect')) as [unknown, Duplex];
      socket.write('GET /through HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n');
      let text = '';
      for await (const chunk of socket) text += String(chunk);
      assert.match(text, /asked for \/through/);
    } finally {
      upstream.close();
      await rm(dir, { recursive: true });
    }
  });
});

describe('the listener of a unix socket', () => {
  it('is told by the kernel, also under another name than the one it was bound to; nobody is an error', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'listener-'));
    const server = createSocketServer();
    try {
      server.listen(join(dir, 'first.sock'));
      await once(server, 'listening');
      await rename(join(dir, 'first.sock'), join(dir, 'now.sock'));
      assert.equal(listenerOf(join(dir, 'now.sock')), process.pid);
      assert.deepEqual(await within(process.pid), [], 'our own namespaces');
      assert.throws(() => listenerOf(join(dir, 'first.sock')), /ENOENT/);
    } finally {
      server.close();
      await rm(dir, { recursive: true });
    }
  });
});
