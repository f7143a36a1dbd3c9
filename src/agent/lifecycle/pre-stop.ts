import { childSignal, type Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { isKind, messageOf } from '../../lib/errors.ts';
import { ExecSyncRequest } from '../../cri/gen/api.ts';
import type { RuntimeService } from '../../cri/services.ts';
import type { LifecycleHandler } from '../../kube/objects.ts';
import type { Deadline } from '../terminate/deadline.ts';

export type HookOutcome =
  | { readonly kind: 'done' }
  | { readonly kind: 'failed'; readonly message: string }
  /** The grace period ended first; what the hook had started was killed. */
  | { readonly kind: 'cut-off' };

const SHOWN_OUTPUT = 1_000;

/** Runs a preStop hook inside the grace period, and never beyond it. */
export async function runPreStop(
  op: Op,
  deps: { readonly runtime: Pick<RuntimeService, 'execSync'>; readonly clock: Clock },
  hook: LifecycleHandler & { readonly sleep?: { readonly seconds: number } },
  containerId: string,
  deadline: Deadline,
): Promise<HookOutcome> {
  using bounded = childSignal(op.signal);
  const cut = (): void => bounded.abort(new Error('the grace period is over'));
  deadline.signal.addEventListener('abort', cut, { once: true });
  try {
    if (deadline.signal.aborted) return { kind: 'cut-off' };
    if (hook.sleep !== undefined) {
      await deps.clock.sleep(hook.sleep.seconds * 1000, bounded.signal);
      return { kind: 'done' };
    }
    const command = hook.exec?.command;
    if (command === undefined) return { kind: 'failed', message: 'this kind of hook is not supported' };
    const timeout = BigInt(Math.max(1, deadline.remainingSeconds()));
    const request = ExecSyncRequest.fromPartial({ containerId, cmd: command, timeout });
    const { exitCode, stdout, stderr } = await deps.runtime.execSync({ ...op, signal: bounded.signal }, request);
    if (exitCode === 0) return { kind: 'done' };
    const output = Buffer.concat([stdout, stderr]).toString('utf8').slice(0, SHOWN_OUTPUT).trim();
    return { kind: 'failed', message: `it exited with ${String(exitCode)}${output === '' ? '' : `: ${output}`}` };
  } catch (error) {
    if (deadline.signal.aborted || isKind(error, 'DeadlineExceeded')) return { kind: 'cut-off' };
    if (op.signal.aborted) throw error;
    return { kind: 'failed', message: messageOf(error) };
  } finally {
    deadline.signal.removeEventListener('abort', cut);
  }
}
