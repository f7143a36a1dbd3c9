import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { join } from 'node:path';
import { it } from 'node:test';
import { Fixture } from './fixture.ts';
import { TestRegistry } from '../../support/registry.ts';
import { imageOf, layerOf } from '../../support/images.ts';

/** Sends everything to one registry, whatever host was asked for. */
class TestProxy implements AsyncDisposable {
  readonly asked: string[] = [];
  readonly #server = createServer();

  static async start(target: string): Promise<TestProxy> {
    const proxy = new TestProxy();
    const [host = '', port = ''] = target.split(':');
    proxy.#server.on('request', (incoming, response) => {
      const url = new URL(incoming.url ?? '');
      proxy.asked.push(url.host);
      const path = url.pathname + url.search;
      incoming.pipe(
        request({ host, port, path, headers: incoming.headers }, (answer) => {
          response.writeHead(answer.statusCode ?? 502, answer.headers);
          answer.pipe(response);
        }),
      );
    });
    proxy.#server.on('connect', (incoming, client: Socket) => {
      proxy.asked.push(incoming.url ?? '');
      const upstream = connect(Number(port), host, () => {
        client.write('HTTP/1.1 200 Connection Established\r\n\r\n');
        upstream.pipe(client).pipe(upstream);
      });
      for (const socket of [upstream, client]) socket.on('error', () => upstream.destroy());
    });
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${String((this.#server.address() as AddressInfo).port)}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

for (const tls of [false, true]) {
  it(`goes through a proxy of the environment (${tls ? 'https' : 'http'})`, async () => {
    await using registry = await TestRegistry.start({ tls });
    await using proxy = await TestProxy.start(registry.host);
    await using fixture = await Fixture.open();
    const image = imageOf([await layerOf('one')]);
    registry.push('app', image, 'latest');
    const dir = join(fixture.dir, 'certs.d', 'far.invalid');
    await mkdir(dir, { recursive: true });
    await writeFile(
      join(dir, 'hosts.toml'),
      `server = "${tls ? 'https' : 'http'}://far.invalid"\nskip_verify = true\n`,
    );
    const env = { HTTP_PROXY: proxy.url, HTTPS_PROXY: proxy.url, NO_PROXY: 'near.invalid' };
    await fixture.reopen({ registry: { ...fixture.registryAccess(), env } });
    assert.equal((await fixture.images.pull(fixture.op, 'far.invalid/app')).id, image.id);
    assert.ok(proxy.asked.length > 0);
    for (const host of proxy.asked) assert.match(host, /^far\.invalid(:443)?$/);
  });
}
