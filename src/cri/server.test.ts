import assert from 'node:assert/strict';
import { chmod, mkdtemp, readdir, rename, rmdir, stat, symlink, unlink, writeFile } from 'node:fs/promises';
import http2 from 'node:http2';
import net from 'node:net';
import os from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Client, credentials, status } from '@grpc/grpc-js';
import type { ServiceError } from '@grpc/grpc-js';
import fc from 'fast-check';
import type { Op } from '../lib/abort.ts';
import { canceled, ERROR_KINDS, GantryError, isKind, notFound } from '../lib/errors.ts';
import type { ErrorKind } from '../lib/errors.ts';
import { silentLog } from '../lib/log.ts';
import { connectCri } from './client.ts';
import type { CriConnection } from './client.ts';
import {
  ContainerEventResponse,
  ContainerStatusRequest,
  ListContainersRequest,
  ListContainersResponse,
  RuntimeServiceService,
  StopContainerRequest,
  VersionRequest,
  VersionResponse,
} from './gen/api.ts';
import { serveCri } from './server.ts';
import type { CriServer, CriServerOptions } from './server.ts';
import type { RuntimeService } from './services.ts';

const SEED = 7;
const op: Op = { signal: new AbortController().signal, log: silentLog };

async function socketFolder(): Promise<string> {
  return await mkdtemp(join(os.tmpdir(), 'gantry-cri-'));
}

function serve(path: string, options: Partial<CriServerOptions> = {}): Promise<CriServer> {
  return serveCri({ listen: `unix://${path}`, log: silentLog, closeGraceMs: 20, ...options });
}

/** A runtime whose StopContainer waits until its op's signal has fired; `reason` is the signal's. */
interface WaitingRuntime {
  readonly runtime: Partial<RuntimeService>;
  readonly entered: Promise<unknown>;
  readonly reason: Promise<unknown>;
}

function waitingRuntime(): WaitingRuntime {
  const entered = Promise.withResolvers<unknown>();
  const reason = Promise.withResolvers<unknown>();
  const stopContainer: RuntimeService['stopContainer'] = (op) => {
    entered.resolve(undefined);
    return new Promise((_resolve, reject) => {
      op.signal.addEventListener('abort', () => {
        reason.resolve(op.signal.reason);
        reject(op.signal.reason as Error);
      });
    });
  };
  return { runtime: { stopContainer }, entered: entered.promise, reason: reason.promise };
}

function http2Frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

function isError(kind: ErrorKind, message?: RegExp): (error: unknown) => boolean {
  return (error) => isKind(error, kind) && (message === undefined || message.test((error as Error).message));
}

describe('CRI over a socket', () => {
  let folder: string;
  let path: string;
  let server: CriServer;
  let cri: CriConnection;
  let nextError: GantryError = notFound('x');
  const big = ListContainersResponse.fromPartial({
    containers: Array.from({ length: 6_000 }, (_none, n) => ({ id: `${n}`, labels: { label: 'x'.repeat(3_000) } })),
  });
  class Runtime implements Partial<RuntimeService> {
    readonly #name = 'gantry';
    // eslint-disable-next-line @typescript-eslint/require-await -- as a class with private fields would have it
    async version(): Promise<VersionResponse> {
      return VersionResponse.fromPartial({ runtimeName: this.#name, runtimeApiVersion: 'v1' });
    }
    listContainers(): Promise<ListContainersResponse> {
      return Promise.resolve(big);
    }
    containerStatus(): never {
      throw nextError;
    }
    async *getContainerEvents(): AsyncIterable<ContainerEventResponse> {
      for (const containerId of ['a', 'b'])
        yield await Promise.resolve(ContainerEventResponse.fromPartial({ containerId }));
      throw nextError;
    }
    listPodSandbox(): Promise<never> {
      return Promise.resolve({ items: 'not a list of sandboxes' } as never);
    }
  }
  before(async () => {
    folder = await socketFolder();
    path = join(folder, 'g.sock');
    server = await serve(path, { runtime: new Runtime() });
    cri = connectCri(`unix://${path}`);
  });
  after(async () => {
    cri.close();
    await server.close();
    assert.deepEqual(await readdir(folder), []);
    await rmdir(folder);
  });

  test('a call to a method that there is not, broken off in the same breath, harms nobody', async () => {
    // Literals without a huffman code: ":method: POST", ":scheme: http", ":authority: x", ":path: /x", with and without a content type.
    const start = Buffer.from([0x83, 0x86, 0x01, 1, ...Buffer.from('x'), 0x04, 2, ...Buffer.from('/x')]);
    const type = Buffer.from('application/grpc');
    const withType = Buffer.concat([start, Buffer.from([0x0f, 0x10, type.length]), type]);
    const [HEADERS, RST_STREAM, SETTINGS, END_HEADERS, CANCEL] = [1, 3, 4, 4, 8];
    for (const headers of [start, withType]) {
      const bytes = Buffer.concat([
        Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
        http2Frame(SETTINGS, 0, 0, Buffer.alloc(0)),
        http2Frame(HEADERS, END_HEADERS, 1, headers),
        http2Frame(RST_STREAM, 0, 1, Buffer.from([0, 0, 0, CANCEL])),
      ]);
      const socket = net.connect(path);
      socket.write(bytes);
      await new Promise((resolve) => socket.once('data', resolve));
      // Ours comes after what it had to do for that call.
      assert.equal((await cri.runtime.version(op, VersionRequest.fromPartial({}))).runtimeName, 'gantry');
      socket.destroy();
    }
  });

  test('a call goes there and back, with the service as `this`', async () => {
    assert.equal((await cri.runtime.version(op, VersionRequest.fromPartial({}))).runtimeName, 'gantry');
  });

  test('only root may connect', async () => {
    assert.equal((await stat(path)).mode & 0o777, 0o600);
  });

  test('a list of more than 16 MiB passes', async () => {
    const list = await cri.runtime.listContainers(op, ListContainersRequest.fromPartial({}));
    assert.ok(ListContainersResponse.encode(list).finish().length > 16 * 1024 * 1024);
    assert.equal(list.containers.length, 6_000);
  });

  test('an error keeps its kind and its words on the way', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...ERROR_KINDS),
        fc.string({ minLength: 1, unit: 'binary' }),
        async (kind, text) => {
          nextError = new GantryError(kind, text);
          await assert.rejects(cri.runtime.containerStatus(op, ContainerStatusRequest.fromPartial({})), (error) => {
            assert.ok(error instanceof GantryError);
            assert.equal(error.kind, kind);
            assert.equal(error.message, text.toWellFormed());
            return true;
          });
        },
      ),
      { seed: SEED, numRuns: 60 },
    );
  });

  test('a stream gives its messages, then its error', async () => {
    nextError = notFound('no more');
    const seen: string[] = [];
    await assert.rejects(
      async () => {
        for await (const event of cri.runtime.getContainerEvents(op, {})) seen.push(event.containerId);
      },
      isError('NotFound', /^no more$/),
    );
    assert.deepEqual(seen, ['a', 'b']);
  });

  test('a response that does not fit the schema is an internal error that says so', async () => {
    await assert.rejects(
      cri.runtime.listPodSandbox(op, { filter: undefined }),
      isError('Internal', /ListPodSandbox does not fit the schema/),
    );
  });

  test('exactly the absent methods answer UNIMPLEMENTED', async () => {
    const present = new Set(['version', 'listContainers', 'containerStatus', 'getContainerEvents', 'listPodSandbox']);
    nextError = notFound('x');
    for (const [name, method] of Object.entries(RuntimeServiceService)) {
      const call = cri.runtime[name as keyof RuntimeService] as (op: Op, request: unknown) => unknown;
      const request: unknown = method.requestDeserialize(Buffer.alloc(0));
      const outcome = await (async () => {
        const answer = call(op, request);
        if (!method.responseStream) return await answer;
        return await (answer as AsyncIterable<unknown>)[Symbol.asyncIterator]().next();
      })().then(
        () => undefined,
        (error: unknown) => error as GantryError,
      );
      assert.equal(isKind(outcome, 'NotImplemented'), !present.has(name), name);
    }
    await assert.rejects(cri.image.listImages(op, { filter: undefined }), isError('NotImplemented'));
    // Of a newer schema than ours.
    const raw = new Client(`unix://${path}`, credentials.createInsecure());
    const same = (bytes: Buffer): Buffer => bytes;
    for (const name of ['CheckpointPod', 'RestorePod', 'NoSuchCall']) {
      const code = await new Promise((resolve) => {
        raw.makeUnaryRequest(`/runtime.v1.RuntimeService/${name}`, same, same, Buffer.alloc(0), (error) => {
          resolve(error?.code);
        });
      });
      assert.equal(code, status.UNIMPLEMENTED, name);
    }
    raw.close();
  });

  test('clients that send the socket path as authority are served, several on one connection', async () => {
    const session = http2.connect('http://localhost', { createConnection: () => net.connect({ path }) });
    try {
      for (let turn = 0; turn < 3; turn++) {
        const headers = await new Promise<http2.IncomingHttpHeaders>((resolve, reject) => {
          const request = session.request({
            ':method': 'POST',
            ':path': '/runtime.v1.RuntimeService/Version',
            ':authority': path,
            'content-type': 'application/grpc',
            te: 'trailers',
          });
          request.on('error', reject);
          request.on('trailers', resolve);
          request.resume();
          request.end(Buffer.from([0, 0, 0, 0, 0]));
        });
        assert.equal(headers['grpc-status'], '0');
      }
    } finally {
      session.destroy();
    }
  });

  test('garbage, half frames and floods end only their own connection', async () => {
    const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
    const settings = Buffer.from('000000040000000000', 'hex');
    const greeting = Buffer.concat([preface, settings]);
    const bytes = fc.uint8Array({ maxLength: 3_000 });
    const inputs = fc.oneof(
      bytes,
      bytes.map((tail) => Buffer.concat([preface, tail])),
      bytes.map((tail) => Buffer.concat([greeting, tail])),
      // a HEADERS frame with arbitrary fields, whole or cut
      fc.tuple(bytes, fc.nat(255), fc.boolean()).map(([block, flags, cut]) => {
        const header = Buffer.from([0, block.length >> 8, block.length & 255, 1, flags, 0, 0, 0, 1]);
        return Buffer.concat([greeting, header, cut ? block.subarray(0, block.length >> 1) : block]);
      }),
      fc.constant(Buffer.concat([greeting, Buffer.from('ffffff010400000001', 'hex'), Buffer.alloc(70_000, 0x2f)])),
      fc.constant(Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n')),
      fc.constant(Buffer.alloc(0)),
    );
    await fc.assert(
      fc.asyncProperty(inputs, fc.boolean(), async (input, reset) => {
        await new Promise<void>((resolve) => {
          const socket = net.connect({ path });
          socket.on('error', () => undefined);
          socket.on('close', () => resolve());
          socket.resume();
          if (reset) socket.write(input, () => socket.destroy());
          else socket.end(input);
        });
      }),
      { seed: SEED, numRuns: 150 },
    );
    assert.equal((await cri.runtime.version(op, VersionRequest.fromPartial({}))).runtimeName, 'gantry');
  });

  test('bytes that are no message of the schema are an error of that call alone', async () => {
    const client = new Client(`unix:${path}`, credentials.createInsecure(), { 'grpc.default_authority': 'localhost' });
    const send = (body: Buffer): Promise<ServiceError | null> =>
      new Promise((resolve) => {
        client.makeUnaryRequest(
          '/runtime.v1.RuntimeService/ContainerStatus',
          (bytes: Buffer) => bytes,
          (bytes) => bytes,
          body,
          (error) => resolve(error),
        );
      });
    try {
      nextError = notFound('x');
      await fc.assert(
        fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (body) => {
          const error = await send(Buffer.from(body));
          assert.ok(error !== null && [status.INTERNAL, status.NOT_FOUND].includes(error.code), String(error));
        }),
        { seed: SEED, numRuns: 100 },
      );
      const huge = await send(Buffer.alloc(17 * 1024 * 1024));
      assert.equal(huge?.code, status.RESOURCE_EXHAUSTED);
    } finally {
      client.close();
    }
  });
});

describe('the end of a call', () => {
  const request = StopContainerRequest.fromPartial({ containerId: 'x', timeout: 30n });

  async function withServer(run: (path: string, waiting: WaitingRuntime) => Promise<void>) {
    const folder = await socketFolder();
    const path = join(folder, 'g.sock');
    const waiting = waitingRuntime();
    const server = await serve(path, { runtime: waiting.runtime });
    try {
      await run(path, waiting);
    } finally {
      await server.close();
      await rmdir(folder);
    }
  }

  test("a client's deadline fires the op's signal with DeadlineExceeded", async () => {
    await withServer(async (path, { reason }) => {
      const client = new Client(`unix:${path}`, credentials.createInsecure(), {
        'grpc.default_authority': 'localhost',
      });
      const method = RuntimeServiceService.stopContainer;
      const error = await new Promise<ServiceError | null>((resolve) => {
        client.makeUnaryRequest(
          method.path,
          method.requestSerialize,
          method.responseDeserialize,
          request,
          { deadline: Date.now() + 100 },
          (error) => resolve(error),
        );
      });
      assert.equal(error?.code, status.DEADLINE_EXCEEDED);
      assert.ok(isKind(await reason, 'DeadlineExceeded'));
      client.close();
    });
  });

  test('a client that cancels or goes away fires it with Canceled', async () => {
    await withServer(async (path, { reason, entered }) => {
      using cri = connectCri(path);
      const controller = new AbortController();
      const call = cri.runtime.stopContainer({ ...op, signal: controller.signal }, request);
      const rejected = assert.rejects(call, isError('Canceled', /^enough$/));
      await entered;
      controller.abort(canceled('enough'));
      await rejected;
      assert.ok(isKind(await reason, 'Canceled'));
    });
    await withServer(async (path, { reason, entered }) => {
      const session = http2.connect('http://localhost', { createConnection: () => net.connect({ path }) });
      const headers = { ':method': 'POST', ':path': RuntimeServiceService.stopContainer.path };
      const stream = session.request({ ...headers, 'content-type': 'application/grpc', te: 'trailers' });
      stream.on('error', () => undefined);
      stream.end(Buffer.from([0, 0, 0, 0, 0]));
      await entered;
      session.destroy();
      assert.ok(isKind(await reason, 'Canceled'));
    });
  });

  test('a server that closes ends what is running with Unavailable', async () => {
    const folder = await socketFolder();
    const path = join(folder, 'g.sock');
    const waiting = waitingRuntime();
    const server = await serve(path, { runtime: waiting.runtime });
    using cri = connectCri(path);
    const call = assert.rejects(cri.runtime.stopContainer(op, request), isError('Unavailable', /shutting down/));
    await waiting.entered;
    await server.close();
    await call;
    assert.ok(isKind(await waiting.reason, 'Unavailable'));
    await rmdir(folder);
  });

  test('a client finds a daemon that was restarted', async () => {
    const folder = await socketFolder();
    const path = join(folder, 'g.sock');
    using cri = connectCri(path);
    await assert.rejects(cri.runtime.version(op, VersionRequest.fromPartial({})), isError('Unavailable'));
    for (let turn = 0; turn < 2; turn++) {
      const version = (): Promise<VersionResponse> => Promise.resolve(VersionResponse.fromPartial({ version: 'v' }));
      const server = await serve(path, { runtime: { version } });
      for (;;) {
        const answer = await cri.runtime.version(op, VersionRequest.fromPartial({})).catch(() => undefined);
        if (answer?.version === 'v') break;
        await new Promise((next) => setTimeout(next, 20));
      }
      await server.close();
    }
    await rmdir(folder);
  });
});

describe('the socket file', () => {
  test('of a dead process is replaced, of a living one refused, anything else left alone', async () => {
    const folder = await socketFolder();
    const path = join(folder, 'sub', 'g.sock');
    const first = await serve(path);
    await assert.rejects(serve(path), isError('FailedPrecondition', /another process is serving/));
    const stale = join(folder, 'sub', 'stale.sock');
    // A socket that nobody listens on any more: bound under one name, known under another.
    const dead = net.createServer();
    await new Promise<void>((resolve) => {
      dead.listen(join(folder, 'sub', 'dead'), resolve);
    });
    await symlink('dead', stale);
    await assert.rejects(serve(stale), isError('FailedPrecondition', /not a socket/));
    await unlink(stale);
    await rename(join(folder, 'sub', 'dead'), stale);
    await new Promise((resolve) => dead.close(resolve));
    await chmod(stale, 0o777);
    const second = await serve(stale);
    assert.equal((await stat(stale)).mode & 0o777, 0o600);
    const file = join(folder, 'file');
    await writeFile(file, 'mine');
    await assert.rejects(serve(file), isError('FailedPrecondition', /not a socket/));
    await second.close();
    await first.close();
    assert.deepEqual(await readdir(join(folder, 'sub')), []);
    await unlink(file);
    await rmdir(join(folder, 'sub'));
    await rmdir(folder);
  });

  test('that another daemon has put in our place is not taken away', async () => {
    const folder = await socketFolder();
    const path = join(folder, 'g.sock');
    const first = await serve(path);
    await unlink(path);
    const second = await serve(path);
    await first.close();
    assert.ok((await stat(path)).isSocket());
    await second.close();
    await rmdir(folder);
  });

  test('addresses that are none are refused', async () => {
    for (const listen of ['tcp://127.0.0.1:1', 'run/x.sock', '', `unix:///${'x'.repeat(120)}`]) {
      await assert.rejects(serveCri({ listen, log: silentLog }), isError('InvalidArgument'));
    }
  });
});
