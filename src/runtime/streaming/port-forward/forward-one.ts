import type { Duplex, Writable } from 'node:stream';
import type { Op } from '../../../lib/abort.ts';
import { canceled, messageOf } from '../../../lib/errors.ts';
import { eitherSignal, sentWhole } from '../session.ts';
import type { SessionContext } from '../session.ts';
import type { PortForwardCall } from '../stream-call.ts';

/** One connection to one port, as its protocol has it. */
export interface PortConnection {
  readonly port: number;
  readonly data: Duplex;
  /** For words about what went wrong. To most clients, any are the end of the whole session. */
  readonly error: Writable;
}

/** Carries one connection until it is over. Never throws. */
export async function forwardOne(
  context: SessionContext,
  call: PortForwardCall,
  gone: AbortSignal,
  { port, data, error }: PortConnection,
): Promise<void> {
  using signal = eitherSignal(context.op.signal, gone);
  const over = (): boolean => data.readableEnded && data.writableFinished;
  data.once('close', () => {
    if (!over()) signal.abort(canceled('the client closed the connection to the port'));
  });
  const op: Op = { ...context.op, signal: signal.signal };
  const { podSandboxId } = call.request;
  try {
    await context.handlers.portForward(op, call.request, port, data);
    await sentWhole(data);
  } catch (failure) {
    const words = `error forwarding port ${port} to pod sandbox ${podSandboxId}: ${messageOf(failure)}`;
    if (op.signal.aborted) {
      op.log.debug({ error: messageOf(failure), podSandboxId, port }, 'a forwarded connection was cut off');
    } else {
      op.log.info({ error: messageOf(failure), podSandboxId, port }, 'forwarding a port failed');
      error.write(words);
    }
  }
  await sentWhole(error);
  data.destroy();
}
