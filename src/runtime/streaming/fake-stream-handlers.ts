import type { AttachRequest, ExecRequest, PortForwardRequest } from '../../cri/gen/api.ts';
import { systemClock } from '../../lib/clock.ts';
import type { Clock } from '../../lib/clock.ts';
import { notImplemented } from '../../lib/errors.ts';
import { silentLog } from '../../lib/log.ts';
import { FakeSpdyClient } from './fake-spdy-client.ts';
import type { FakeStream } from './fake-spdy-client.ts';
import type { StreamingLimits } from './limits.ts';
import { serveStreaming } from './serve-streaming.ts';
import type { StreamHandlers, StreamingServer } from './streams.ts';

/** Serves with the handlers that a test gives; the others throw. */
export async function serveFake(
  handlers: Partial<StreamHandlers>,
  options: { readonly clock?: Clock; readonly limits?: Partial<StreamingLimits> } = {},
): Promise<StreamingServer> {
  const none = (): Promise<never> => Promise.reject(notImplemented('not a part of this test'));
  return await serveStreaming({
    listen: '127.0.0.1:0',
    handlers: { exec: none, attach: none, portForward: none, ...handlers },
    log: silentLog,
    ...options,
  });
}

export function execRequest(some: Partial<ExecRequest> = {}): ExecRequest {
  return { containerId: 'c1', cmd: ['true'], tty: false, stdin: false, stdout: true, stderr: false, ...some };
}

export function attachRequest(some: Partial<AttachRequest> = {}): AttachRequest {
  return { containerId: 'c1', tty: false, stdin: false, stdout: true, stderr: false, ...some };
}

export function portForwardRequest(...port: number[]): PortForwardRequest {
  return { podSandboxId: 'p1', port };
}

export interface CommandSession {
  readonly client: FakeSpdyClient;
  readonly streams: Readonly<Record<string, FakeStream>>;
}

/** Connects as kubectl does and opens the streams in its order. */
export async function openCommand(
  url: string,
  types: readonly ('stdin' | 'stdout' | 'stderr' | 'resize')[],
  options: { readonly protocol?: string; readonly keepsWindows?: boolean } = {},
): Promise<CommandSession> {
  const client = await FakeSpdyClient.connect(url, options.protocol ?? 'v4.channel.k8s.io', options);
  const streams: Record<string, FakeStream> = {};
  for (const type of ['error', ...types]) streams[type] = await client.open({ streamtype: type });
  return { client, streams };
}

/** Waits until something that happens in the background has happened. */
export async function until(what: string, holds: () => boolean): Promise<void> {
  const deadlineMs = systemClock.monotonicMs() + 10_000;
  while (!holds()) {
    if (systemClock.monotonicMs() > deadlineMs) throw new Error(`it did not happen: ${what}`);
    await systemClock.sleep(5);
  }
}
