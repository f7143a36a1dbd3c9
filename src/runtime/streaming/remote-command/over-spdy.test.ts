import assert from 'node:assert/strict';
import { pipeline } from 'node:stream/promises';
import { afterEach, describe, test } from 'node:test';
import { failedPrecondition } from '../../../lib/errors.ts';
import { FakeClock } from '../../../lib/fake-clock.ts';
import { FakeSpdyClient, Refused, upgrade } from '../fake-spdy-client.ts';
import { attachRequest, execRequest, openCommand, serveFake, until } from '../fake-stream-handlers.ts';
import type { RemoteCommand, StreamHandlers, StreamingServer, TerminalSize } from '../streams.ts';

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

const echo: StreamHandlers['exec'] = async (_op, _request, { stdin, stdout }) => {
  for await (const chunk of stdin!) stdout!.write(chunk);
  return { exitCode: 0 };
};

describe('exec', () => {
  test('carries stdin to its end, stdout, stderr and the exit code', async () => {
    const server = await serve({
      exec: async (_op, request, { stdin, stdout, stderr }) => {
        assert.deepEqual(request.cmd, ['cat']);
        for await (const chunk of stdin!) stdout!.write(chunk);
        stderr!.write('done');
        return { exitCode: 3 };
      },
    });
    const url = server.execUrl(execRequest({ cmd: ['cat'], stdin: true, stderr: true }));
    const { client, streams } = await openCommand(url, ['stdin', 'stdout', 'stderr']);
    await streams['stdin']!.write('hello ');
    await streams['stdin']!.write('world');
    await streams['stdin']!.end();
    assert.equal(await streams['stdout']!.text(), 'hello world');
    assert.equal(await streams['stderr']!.text(), 'done');
    const status = JSON.parse(await streams['error']!.text()) as Record<string, unknown>;
    assert.equal(status['reason'], 'NonZeroExitCode');
    assert.deepEqual(status['details'], { causes: [{ reason: 'ExitCode', message: '3' }] });
    await until('the replies are read', () => Buffer.concat(client.replies).toString('hex') === '00000000'.repeat(4));
    await client.leave();
  });

  test('carries more both ways at once than any window holds, with a client that keeps none', async () => {
    const server = await serve({
      exec: async (_op, _request, { stdin, stdout }) => {
        await pipeline(stdin!, stdout!);
        return { exitCode: 0 };
      },
    });
    const { client, streams } = await openCommand(server.execUrl(execRequest({ stdin: true })), ['stdin', 'stdout']);
    streams['stdout']!.onData = () => undefined;
    const piece = Buffer.alloc(32 * 1024, 'x');
    for (let count = 0; count < 128; count++) void streams['stdin']!.write(piece);
    void streams['stdin']!.end();
    await until('all of it has come back', () => streams['stdout']!.bytes === 128 * piece.length);
    assert.equal(await streams['stdout']!.ended.promise, 'end');
    await client.leave();
  });

  test('tells an error in its words', async () => {
    const server = await serve({ exec: () => Promise.reject(failedPrecondition('container c1 does not run')) });
    const { client, streams } = await openCommand(server.execUrl(execRequest()), ['stdout']);
    const status = JSON.parse(await streams['error']!.text()) as Record<string, unknown>;
    assert.equal(status['message'], 'container c1 does not run');
    assert.equal(await streams['stdout']!.text(), '');
    await client.leave();
  });

  test('older protocols are told in words, and nothing of success', async () => {
    for (const protocol of ['v3.channel.k8s.io', 'v2.channel.k8s.io', 'channel.k8s.io']) {
      for (const exitCode of [0, 7]) {
        const server = await serve({ exec: () => Promise.resolve({ exitCode }) });
        const { client, streams } = await openCommand(server.execUrl(execRequest()), ['stdout'], { protocol });
        assert.equal(
          await streams['error']!.text(),
          exitCode === 0 ? '' : 'command terminated with non-zero exit code: exit status 7',
        );
        await client.leave();
      }
    }
  });

  test('a terminal has sizes; before v3 there was no stream for them', async () => {
    const exec: StreamHandlers['exec'] = async (_op, _request, { resizes, stdout }) => {
      for await (const size of resizes) {
        stdout!.write(JSON.stringify(size));
        if (size.width === 2) break;
      }
      return { exitCode: 0 };
    };
    const server = await serve({ exec });
    const { client, streams } = await openCommand(server.execUrl(execRequest({ tty: true })), ['stdout', 'resize']);
    await streams['resize']!.write('{"Width":1,"Height":9}\n');
    await until('the first size', () => streams['stdout']!.bytes > 0);
    await streams['resize']!.write('{"Width":2,"Height":9}\n');
    const got = (await streams['stdout']!.text()).replaceAll('}{', '}\n{').split('\n');
    assert.deepEqual(
      got.map((line) => JSON.parse(line) as TerminalSize),
      [
        { width: 1, height: 9 },
        { width: 2, height: 9 },
      ],
    );
    await client.leave();
    const old = await serve({ exec: () => Promise.resolve({ exitCode: 0 }) });
    const second = await openCommand(old.execUrl(execRequest({ tty: true })), ['stdout'], {
      protocol: 'v2.channel.k8s.io',
    });
    assert.equal(await second.streams['error']!.text(), '');
    await second.client.leave();
  });

  test('only what was asked for is there; a stream beyond it is accepted and ended', async () => {
    let seen: RemoteCommand | undefined;
    const server = await serve({
      exec: async (_op, _request, remote) => {
        seen = remote;
        await Promise.resolve();
        return { exitCode: 0 };
      },
    });
    const url = server.execUrl(execRequest({ stdout: false, stderr: true }));
    const { client, streams } = await openCommand(url, ['stdin', 'stdout', 'stderr']);
    assert.equal(await streams['stdout']!.ended.promise, 'end');
    assert.equal(await streams['stdin']!.ended.promise, 'reset');
    assert.equal(seen?.stdin, undefined);
    assert.equal(seen?.stdout, undefined);
    assert.ok(seen?.stderr !== undefined);
    await client.leave();
  });

  test('a stream twice, or of no type that there is, is refused; the session goes on', async () => {
    const server = await serve({ exec: echo });
    const { client, streams } = await openCommand(server.execUrl(execRequest({ stdin: true })), ['stdin']);
    await assert.rejects(client.open({ streamtype: 'stdin' }), /refused/);
    await assert.rejects(client.open({ streamtype: 'constructor' }), /refused/);
    await assert.rejects(client.open({}), /refused/);
    const stdout = await client.open({ streamtype: 'stdout' });
    await streams['stdin']!.write('x');
    await streams['stdin']!.end();
    assert.equal(await stdout.text(), 'x');
    await client.leave();
  });

  test('what comes before the last stream is there is not lost', async () => {
    const server = await serve({ exec: echo });
    const { client, streams } = await openCommand(server.execUrl(execRequest({ stdin: true })), ['stdin']);
    await streams['stdin']!.write('early');
    await streams['stdin']!.end();
    const stdout = await client.open({ streamtype: 'stdout' });
    assert.equal(await stdout.text(), 'early');
    await client.leave();
  });
});

test('attach ends with success when the container’s streams do', async () => {
  const server = await serve({
    attach: async (_op, request, { stdout }) => {
      await new Promise<void>((resolve) => stdout!.write(request.containerId, () => resolve()));
    },
  });
  const { client, streams } = await openCommand(server.attachUrl(attachRequest()), ['stdout']);
  assert.equal(await streams['stdout']!.text(), 'c1');
  assert.deepEqual(JSON.parse(await streams['error']!.text()), { metadata: {}, status: 'Success' });
  await client.leave();
});

describe('the URL', () => {
  test('is good once, for its own kind, and only for an upgrade', async () => {
    const server = await serve({ exec: () => Promise.resolve({ exitCode: 0 }) });
    const url = server.execUrl(execRequest());
    assert.match(url, new RegExp(`^http://${server.address}/exec/[\\w-]{22}$`));
    const headers = { Upgrade: 'SPDY/3.1', 'X-Stream-Protocol-Version': 'v4.channel.k8s.io' };
    const refusedWith = async (asked: string, code: number, some: Record<string, string> = headers): Promise<void> => {
      await assert.rejects(upgrade(asked, some), (error) => error instanceof Refused && error.code === code);
    };
    await refusedWith(url.replace('/exec/', '/attach/'), 404);
    await refusedWith(`http://${server.address}/exec/`, 404);
    await refusedWith(`http://${server.address}/`, 404);
    await refusedWith(url, 403, { ...headers, 'X-Stream-Protocol-Version': 'v9.channel.k8s.io' });
    await refusedWith(url, 400, { ...headers, Upgrade: 'h2c' });
    assert.equal((await fetch(url)).status, 400);
    const { socket } = await upgrade(url, headers);
    await refusedWith(url, 404);
    socket.destroy();
  });

  test('is not given for what cannot be served', async () => {
    const server = await serve({});
    const wrong = [
      execRequest({ stdout: false }),
      execRequest({ tty: true, stderr: true }),
      execRequest({ containerId: '' }),
    ];
    for (const request of wrong) assert.throws(() => server.execUrl(request), { kind: 'InvalidArgument' });
    assert.throws(() => server.attachUrl(attachRequest({ stdout: false })), { kind: 'InvalidArgument' });
    assert.throws(() => server.portForwardUrl({ podSandboxId: '', port: [] }), { kind: 'InvalidArgument' });
  });
});

describe('a client that', () => {
  test('vanishes fires the signal and cuts the streams', async () => {
    const outcome = Promise.withResolvers<unknown[]>();
    const server = await serve({
      exec: async (op, _request, { stdin, stdout }) => {
        const aborted = new Promise<unknown>((resolve) =>
          op.signal.addEventListener('abort', () => resolve(op.signal.reason)),
        );
        const ended = new Promise<string>((resolve) => {
          stdin!.once('end', () => resolve('end'));
          stdin!.once('close', () => resolve('cut'));
          stdin!.resume();
        });
        const reason = await aborted;
        const late = await new Promise((resolve) => stdout!.write('late', resolve));
        outcome.resolve([String(reason), await ended, late instanceof Error]);
        return { exitCode: 0 };
      },
    });
    const { client } = await openCommand(server.execUrl(execRequest({ stdin: true })), ['stdin', 'stdout']);
    client.socket.destroy();
    const [reason, ended, late] = await outcome.promise;
    assert.match(String(reason), /the connection is over/);
    assert.equal(ended, 'cut');
    assert.equal(late, true);
  });

  test('vanishes while its stdin is stuck is noticed, too', async () => {
    const clock = new FakeClock();
    const gone = Promise.withResolvers<undefined>();
    const server = await serve(
      {
        exec: async (op) => {
          await new Promise((resolve) => op.signal.addEventListener('abort', resolve));
          gone.resolve(undefined);
          return { exitCode: 0 };
        },
      },
      { clock },
    );
    const { client, streams } = await openCommand(server.execUrl(execRequest({ stdin: true })), ['stdin', 'stdout']);
    client.socket.on('error', () => undefined);
    let taken = 0;
    const stuff = async (): Promise<void> => {
      while (!client.socket.destroyed) {
        await streams['stdin']!.write(Buffer.alloc(65_536));
        taken += 65_536;
      }
    };
    void stuff();
    let before = -1;
    await until('nothing more is taken', () => {
      const still = taken === before && taken > 0;
      before = taken;
      return still;
    });
    assert.ok(taken < 40_000_000, `${taken} bytes were taken of a stdin that nobody reads`);
    client.socket.destroy();
    for (let round = 0; round < 20; round += 1) {
      await clock.advance(5_000);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await gone.promise;
  });

  test('does not open its streams is told which are missing after 30 s', async () => {
    const clock = new FakeClock();
    const server = await serve({ exec: echo }, { clock });
    const { client, streams } = await openCommand(server.execUrl(execRequest({ stdin: true })), ['stdin']);
    await clock.advance(29_000);
    await clock.advance(1_000);
    const status = JSON.parse(await streams['error']!.text()) as Record<string, unknown>;
    assert.match(String(status['message']), /within 30000 ms: stdout/);
    await client.closed.promise;
  });

  test('says nothing for four hours is let go', async () => {
    const clock = new FakeClock();
    let reason = '';
    const server = await serve(
      {
        exec: async (op) => {
          await new Promise((resolve) => op.signal.addEventListener('abort', resolve));
          reason = String(op.signal.reason);
          return { exitCode: 0 };
        },
      },
      { clock },
    );
    const { client } = await openCommand(server.execUrl(execRequest()), ['stdout']);
    await clock.advance(3 * 3_600_000);
    await client.ping(1);
    await until('the ping is answered', () => client.frames.some((frame) => frame.kind === 'ping' && frame.id === 1));
    await clock.advance(3 * 3_600_000);
    assert.equal(reason, '');
    await clock.advance(3_600_000);
    await client.closed.promise;
    await until('the handler hears of it', () => reason !== '');
    assert.match(reason, /too long/);
  });

  test('reads slowly gets everything: the connection is not closed before it does', async () => {
    const clock = new FakeClock();
    const server = await serve(
      {
        exec: async (_op, _request, { stdout }) => {
          for (let index = 0; index < 64; index += 1) {
            await new Promise((resolve) => stdout!.write(Buffer.alloc(65_536, index), resolve));
          }
          return { exitCode: 0 };
        },
      },
      { clock },
    );
    const { client, streams } = await openCommand(server.execUrl(execRequest({ stdin: true })), ['stdin', 'stdout']);
    // As somebody who types on while the output is still arriving.
    for (let round = 0; round < 10; round += 1) {
      client.socket.pause();
      await streams['stdin']!.write('\n');
      await client.ping(round * 2 + 1);
      await new Promise((resolve) => setTimeout(resolve, 10));
      client.socket.resume();
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    assert.equal(await streams['stdout']!.ended.promise, 'end');
    assert.equal(streams['stdout']!.bytes, 64 * 65_536);
    assert.match(await streams['error']!.text(), /Success/);
    await clock.advance(14 * 60_000);
    await client.ping(101);
    await until('the server is still there', () =>
      client.frames.some((frame) => frame.kind === 'ping' && frame.id === 101),
    );
    await clock.advance(60_000);
    await client.closed.promise;
  });
});

test('the daemon that closes ends its sessions', async () => {
  const server = await serveFake({
    exec: async (op) => {
      await new Promise((resolve) => op.signal.addEventListener('abort', resolve));
      throw op.signal.reason;
    },
  });
  const { client, streams } = await openCommand(server.execUrl(execRequest()), ['stdout']);
  const closed = server.close();
  assert.match(await streams['error']!.text(), /shutting down/);
  await client.leave();
  await closed;
  await assert.rejects(FakeSpdyClient.connect(`http://${server.address}/exec/x`, 'v4.channel.k8s.io'));
});
