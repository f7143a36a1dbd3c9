import type { Op } from '../../../lib/abort.ts';
import { messageOf } from '../../../lib/errors.ts';
import { eitherSignal, fired, sentWhole } from '../session.ts';
import type { SessionContext } from '../session.ts';
import type { CommandCall } from '../stream-call.ts';
import type { RemoteCommand } from '../streams.ts';
import type { Outcome } from './outcome.ts';

/** The far end of an exec or attach, with what its protocol needs to end it. */
export interface CommandWire {
  readonly remote: RemoteCommand;
  /** Fires when the connection is over. */
  readonly gone: AbortSignal;
  /** The command has ended: from now on whatever the client sends is dropped. */
  stopInput(): void;
  /** Called when all output has been sent: tells the outcome, and that nothing more will come. Resolves when that is on its way. */
  tell(outcome: Outcome): Promise<void>;
  /** Ends the connection at once. */
  cut(reason: string): void;
}

/** Runs the command against the wire, tells how it came out, and waits until the client has heard it and closed. */
export async function runCommand(context: SessionContext, call: CommandCall, wire: CommandWire): Promise<void> {
  const { clock, limits } = context;
  using signal = eitherSignal(context.op.signal, wire.gone);
  const op: Op = { ...context.op, signal: signal.signal };
  const outcome = await outcomeOf(context, op, call, wire.remote);
  if (wire.gone.aborted) return;

  const limit = clock.after(limits.finishMs, () => wire.cut('the client does not read what the command said'));
  try {
    wire.stopInput();
    await Promise.all([sentWhole(wire.remote.stdout), sentWhole(wire.remote.stderr)]);
    await wire.tell(outcome);
    await fired(wire.gone);
  } finally {
    limit.cancel();
  }
}

async function outcomeOf(context: SessionContext, op: Op, call: CommandCall, remote: RemoteCommand): Promise<Outcome> {
  try {
    if (call.kind === 'exec') {
      const { exitCode } = await context.handlers.exec(op, call.request, remote);
      return { kind: 'exited', exitCode };
    }
    await context.handlers.attach(op, call.request, remote);
    return { kind: 'exited', exitCode: 0 };
  } catch (error) {
    const fields = { error: messageOf(error), containerId: call.request.containerId };
    if (op.signal.aborted) op.log.debug(fields, `${call.kind} was cut off`);
    else op.log.info(fields, `${call.kind} failed`);
    return { kind: 'failed', error };
  }
}
