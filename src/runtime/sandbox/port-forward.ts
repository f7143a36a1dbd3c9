import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { PortForwardRequest } from '../../cri/gen/api.ts';
import { childSignal, raceSignal, withDeadline, type Op } from '../../lib/abort.ts';
import { canceled, errnoOf, failedPrecondition, invalidArgument, messageOf, unavailable } from '../../lib/errors.ts';
import type { RuntimeContext } from '../context.ts';
import type { SandboxRecord } from '../store/sandbox-record.ts';
import { takesContainers } from './state.ts';

const MAX_PORT = 65_535;
/** Inside one machine: whoever does not answer by then drops what comes. */
const CONNECT_MS = 10_000;
/** As the field does it: a server may listen on one of the two only. */
const LOCALHOST = [
  { family: 4, host: '127.0.0.1' },
  { family: 6, host: '::1' },
] as const;

/** Checks what CRI's PortForward asks for. Throws NotFound, InvalidArgument, FailedPrecondition (not ready). */
export function checkPortForward(rt: RuntimeContext, request: PortForwardRequest): PortForwardRequest {
  for (const port of request.port) mustBePort(port);
  const { meta } = readySandbox(rt, request.podSandboxId);
  return { ...request, podSandboxId: meta.id };
}

/**
 * Connects one stream of a client to a TCP port on the pod's localhost, until both have ended their halves, or the pod ends. Throws
 * Unavailable when nobody listens there.
 */
export async function forwardPort(
  op: Op,
  rt: RuntimeContext,
  { podSandboxId }: PortForwardRequest,
  port: number,
  data: Duplex,
): Promise<void> {
  mustBePort(port);
  const record = readySandbox(rt, podSandboxId);
  using session = childSignal(op.signal);
  // Its sockets would keep the network namespace of a pod that is gone.
  void whenOver({ ...op, signal: session.signal }, rt, record.meta.id).then(
    () => {
      session.abort(canceled(`sandbox ${record.meta.id} is being stopped`));
    },
    () => undefined,
  );
  const socket = await connect({ ...op, signal: session.signal }, rt, record, port);
  try {
    // Whatever breaks one way ends both; to the client it is the end of a connection, as it would be on its own machine.
    const bothWays = Promise.all([pipeline(data, socket), pipeline(socket, data)]).catch(() => undefined);
    await raceSignal(bothWays, session.signal);
  } finally {
    socket.destroy();
    session.abort(canceled('over'));
  }
}

function mustBePort(port: number): void {
  if (!Number.isSafeInteger(port) || port < 1 || port > MAX_PORT) {
    throw invalidArgument(`port ${String(port)} is none: 1 to ${String(MAX_PORT)} are`);
  }
}

function readySandbox({ sandboxes }: RuntimeContext, idOrPrefix: string): SandboxRecord {
  const record = sandboxes.must(sandboxes.resolve(idOrPrefix) ?? idOrPrefix);
  if (!takesContainers(record.status)) {
    throw failedPrecondition(`sandbox ${record.meta.id} is not ready: no port of it can be reached`);
  }
  return record;
}

async function whenOver(op: Op, { sandboxes }: RuntimeContext, id: string): Promise<void> {
  await sandboxes.waitFor(op, id, (status) => status === undefined || !takesContainers(status));
}

async function connect(op: Op, rt: RuntimeContext, { meta }: SandboxRecord, port: number): Promise<Socket> {
  const failures: string[] = [];
  for (const { family, host } of LOCALHOST) {
    let socket: Socket | undefined;
    try {
      socket = await rt.podSockets.open(op, meta.facts.netnsPath, family);
      await connected(op, rt, socket, port, host);
      return socket;
    } catch (error) {
      socket?.destroy();
      op.signal.throwIfAborted();
      failures.push(`${host}: ${errnoOf(error) ?? messageOf(error)}`);
    }
  }
  throw unavailable(`port ${String(port)} of sandbox ${meta.id} cannot be reached (${failures.join(', ')})`);
}

async function connected(op: Op, { clock }: RuntimeContext, socket: Socket, port: number, host: string): Promise<void> {
  const answered = Promise.withResolvers<undefined>();
  socket.once('connect', () => {
    answered.resolve(undefined);
  });
  // Stays: what happens later is told by the stream's end.
  socket.on('error', (error) => {
    answered.reject(error);
  });
  socket.connect({ host, port });
  await withDeadline(op, clock, CONNECT_MS, `connect to port ${String(port)}`, () => answered.promise);
}
