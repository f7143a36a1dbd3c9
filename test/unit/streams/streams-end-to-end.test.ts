import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import type { Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { openFakeApi, type FakeApi } from '../../../src/kube/api/fake-api.ts';
import { serveApi, type ApiServer } from '../../../src/kube/api/server.ts';
import { connectApi } from '../../../src/kube/http/connect.ts';
import type { PodStreamRequest, PodStreams } from '../../../src/kube/streams/pod-streams.ts';
import { failedPrecondition } from '../../../src/lib/errors.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { serveFake } from '../../../src/runtime/streaming/fake-stream-handlers.ts';
import type { StreamHandlers, StreamingServer } from '../../../src/runtime/streaming/streams.ts';

const op = { signal: new AbortController().signal, log: silentLog };
const POD = { namespace: 'default', name: 'web' };
const STREAMS = { stdin: true, stdout: true, stderr: true, tty: false };

/** Our client, through the API, to the runtime's streaming server: only what is at the far end is made up. */
describe('streams from end to end', () => {
  let folder: string;
  let api: FakeApi;
  let server: ApiServer;
  let streaming: StreamingServer;
  let streams: PodStreams;
  let far: Partial<StreamHandlers> = {};

  before(async () => {
    folder = await mkdtemp(path.join(os.tmpdir(), 'gantry-e2e-'));
    api = await openFakeApi();
    streaming = await serveFake({
      exec: (...args) => far.exec?.(...args) ?? assert.fail('exec'),
      attach: (...args) => far.attach?.(...args) ?? assert.fail('attach'),
      portForward: (...args) => far.portForward?.(...args) ?? assert.fail('port-forward'),
    });
    const streamUrl = (_op: unknown, request: PodStreamRequest): Promise<string> => Promise.resolve(urlOf(request));
    server = await serveApi({
      ...{ registry: api.registry, clock: api.clock, log: silentLog, version: '0', streams: { streamUrl } },
      listen: [`unix://${folder}/s`],
    });
    ({ streams } = await connectApi(`unix://${folder}/s`));
  });
  after(async () => {
    await streaming.close();
    await server.close();
    api.close();
    await rm(folder, { recursive: true });
  });

  function urlOf(request: PodStreamRequest): string {
    if (request.kind === 'portforward') return streaming.portForwardUrl({ podSandboxId: 's', port: [] });
    const { stdin, stdout, stderr, tty } = request;
    const common = { containerId: 'c', stdin, stdout, stderr, tty };
    if (request.kind === 'attach') return streaming.attachUrl(common);
    return streaming.execUrl({ ...common, cmd: [...request.command] });
  }

  test('exec: stdin to its end, both outputs, the exit code', async () => {
    far = {
      exec: async (_op, { cmd }, { stdin, stdout, stderr }) => {
        stderr?.write(cmd.join(' '));
        for await (const chunk of stdin ?? []) stdout?.write(String(chunk).toUpperCase());
        return { exitCode: 7 };
      },
    };
    const session = await streams.run(op, { kind: 'exec', ...POD, ...STREAMS, command: ['tr', 'a-z'] });
    session.stdin.write('every ');
    session.stdin.end('word');
    const outputs = await Promise.all([text(session.stdout), text(session.stderr), session.ended]);
    assert.deepEqual(outputs, ['EVERY WORD', 'tr a-z', 7]);
    session.close();
  });

  test('exec with a terminal: its sizes', async () => {
    const sizes: unknown[] = [];
    far = {
      exec: async (_op, _request, { resizes, stdout }) => {
        for await (const size of resizes) {
          sizes.push(size);
          stdout?.write('!');
          if (sizes.length === 2) break;
        }
        return { exitCode: 0 };
      },
    };
    const tty = { ...STREAMS, stderr: false, tty: true };
    const session = await streams.run(op, { kind: 'exec', ...POD, ...tty, command: ['sh'] });
    session.resize({ width: 80, height: 24 });
    await once(session.stdout, 'data');
    session.resize({ width: 81, height: 25 });
    assert.equal(await session.ended, 0);
    assert.deepEqual(sizes, [
      { width: 80, height: 24 },
      { width: 81, height: 25 },
    ]);
    session.close();
  });

  test('what the far end throws is told', async () => {
    far = { exec: () => Promise.reject(failedPrecondition('no such program')) };
    const session = await streams.run(op, { kind: 'exec', ...POD, ...STREAMS, command: ['x'] });
    await assert.rejects(session.ended, /no such program/);
    session.close();
  });

  test('port-forward: connections side by side, each half with an end of its own', async () => {
    far = {
      portForward: async (_op, _request, port, data) => {
        let asked = '';
        // The other half stays open.
        for await (const chunk of data.iterator({ destroyOnReturn: false })) asked += String(chunk);
        data.end(`${port}: ${asked}`);
        await once(data, 'finish');
      },
    };
    const session = await streams.forward(op, { kind: 'portforward', ...POD });
    const answers = [80, 443, 80].map(async (port, index) => {
      const { data, failure } = session.open(port);
      data.write(`request `);
      data.end(String(index));
      return [await text(data), await failure];
    });
    assert.deepEqual(await Promise.all(answers), [
      ['80: request 0', undefined],
      ['443: request 1', undefined],
      ['80: request 2', undefined],
    ]);
    session.close();
    await over(session.over);
  });

  test('port-forward: much both ways at once, more than any window', async () => {
    far = {
      portForward: async (_op, _request, _port, data: Duplex) => {
        data.pipe(data);
        await once(data, 'finish');
      },
    };
    const session = await streams.forward(op, { kind: 'portforward', ...POD });
    const [chunk, count] = [Buffer.alloc(1 << 20, 'x'), 16];
    const lengths = await Promise.all(
      [1, 2].map(async (port) => {
        const { data } = session.open(port);
        for (let index = 0; index < count; index++) data.write(chunk);
        data.end();
        let received = 0;
        for await (const part of data as AsyncIterable<Buffer>) received += part.byteLength;
        return received;
      }),
    );
    assert.deepEqual(lengths, [count * chunk.byteLength, count * chunk.byteLength]);
    session.close();
  });

  test('port-forward: a failure is told with its connection, and the others go on', async () => {
    far = {
      portForward: async (_op, _request, port, data) => {
        if (port === 81) throw failedPrecondition('connection refused');
        data.pipe(data);
        await once(data, 'finish');
      },
    };
    const session = await streams.forward(op, { kind: 'portforward', ...POD });
    const good = session.open(80);
    const bad = session.open(81);
    bad.data.on('error', () => undefined);
    assert.match((await bad.failure) ?? '', /forwarding port 81 .*connection refused/);
    good.data.end('still here');
    assert.equal(await text(good.data), 'still here');
    session.close();
  });

  test('a session is over with the runtime’s streaming server', async () => {
    far = {};
    const session = await streams.forward(op, { kind: 'portforward', ...POD });
    await streaming.close();
    await over(session.over);
  });
});

async function over(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}
