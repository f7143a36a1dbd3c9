import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { silentLog } from '../../lib/log.ts';
import { FakeSpdyClient } from './fake-spdy-client.ts';
import { execRequest, fakeHandlers } from './fake-stream-handlers.ts';
import { serveStreaming } from './serve-streaming.ts';
import type { StreamHandlers, StreamingServer } from './streams.ts';

const servers: StreamingServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function serve(handlers: Partial<StreamHandlers>): Promise<StreamingServer> {
  const server = await serveStreaming({
    listen: '127.0.0.1:0',
    handlers: fakeHandlers(handlers),
    log: silentLog,
  });
  servers.push(server);
  return server;
}

describe('exec over SPDY', () => {
  test('carries stdin to its end, stdout, stderr and the exit code', async () => {
    const server = await serve({
      exec: async (_op, request, { stdin, stdout, stderr }) => {
        assert.deepEqual(request.cmd, ['cat']);
        for await (const chunk of stdin!) stdout!.write(chunk);
        stderr!.write('done');
        return { exitCode: 3 };
      },
    });
    const client = await FakeSpdyClient.connect(
      server.execUrl(execRequest({ cmd: ['cat'], stdin: true, stderr: true })),
      'v4.channel.k8s.io',
    );
    const error = await client.open({ streamtype: 'error' });
    const stdin = await client.open({ streamtype: 'stdin' });
    const stdout = await client.open({ streamtype: 'stdout' });
    const stderr = await client.open({ streamtype: 'stderr' });
    await stdin.write('hello ');
    await stdin.write('world');
    await stdin.end();
    assert.equal(await stdout.text(), 'hello world');
    assert.equal(await stderr.text(), 'done');
    assert.deepEqual(JSON.parse(await error.text()), {
      metadata: {},
      status: 'Failure',
      message: 'command terminated with non-zero exit code: exit status 3',
      reason: 'NonZeroExitCode',
      details: { causes: [{ reason: 'ExitCode', message: '3' }] },
    });
    await client.leave();
  });
});
