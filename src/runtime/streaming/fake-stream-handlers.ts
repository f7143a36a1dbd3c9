import type { Duplex } from 'node:stream';
import type { AttachRequest, ExecRequest, PortForwardRequest } from '../../cri/gen/api.ts';
import type { Op } from '../../lib/abort.ts';
import { notImplemented } from '../../lib/errors.ts';
import type { CommandEnd, RemoteCommand, StreamHandlers } from './streams.ts';

/** Handlers that a test gives what it needs of. */
export function fakeHandlers(some: {
  exec?: (op: Op, request: ExecRequest, remote: RemoteCommand) => Promise<CommandEnd>;
  attach?: (op: Op, request: AttachRequest, remote: RemoteCommand) => Promise<void>;
  portForward?: (op: Op, request: PortForwardRequest, port: number, data: Duplex) => Promise<void>;
}): StreamHandlers {
  const none = (): Promise<never> => Promise.reject(notImplemented('not a part of this test'));
  return { exec: some.exec ?? none, attach: some.attach ?? none, portForward: some.portForward ?? none };
}

export function execRequest(some: Partial<ExecRequest> = {}): ExecRequest {
  return { containerId: 'c1', cmd: ['true'], tty: false, stdin: false, stdout: true, stderr: false, ...some };
}
