import type { ErrorKind } from '../../../lib/errors.ts';
import { kindOf, messageOf } from '../../../lib/errors.ts';

/** How an exec or attach came out. */
export type Outcome =
  { readonly kind: 'exited'; readonly exitCode: number } | { readonly kind: 'failed'; readonly error: unknown };

const LARGEST_EXIT_CODE = 255;

/** What Kubernetes calls our kinds; every other one is an internal error to it. */
const REASONS: Partial<Record<ErrorKind, { readonly reason: string; readonly code: number }>> = {
  NotFound: { reason: 'NotFound', code: 404 },
  InvalidArgument: { reason: 'BadRequest', code: 400 },
  FailedPrecondition: { reason: 'Conflict', code: 409 },
  Unavailable: { reason: 'ServiceUnavailable', code: 503 },
  DeadlineExceeded: { reason: 'Timeout', code: 504 },
};

/** The outcome as a Kubernetes Status, which is what clients of v4 and later read the exit code from. */
export function outcomeAsStatus(outcome: Outcome): string {
  if (outcome.kind === 'failed' || outcome.exitCode < 0 || outcome.exitCode > LARGEST_EXIT_CODE) {
    const { reason, code } = (outcome.kind === 'failed' ? REASONS[kindOf(outcome.error)] : undefined) ?? {
      reason: 'InternalError',
      code: 500,
    };
    return JSON.stringify({ metadata: {}, status: 'Failure', message: outcomeAsText(outcome), reason, code });
  }
  if (outcome.exitCode === 0) return JSON.stringify({ metadata: {}, status: 'Success' });
  return JSON.stringify({
    metadata: {},
    status: 'Failure',
    message: outcomeAsText(outcome),
    reason: 'NonZeroExitCode',
    details: { causes: [{ reason: 'ExitCode', message: String(outcome.exitCode) }] },
  });
}

/** The outcome in words, which is all that clients before v4 are told; nothing for success. */
export function outcomeAsText(outcome: Outcome): string {
  if (outcome.kind === 'failed') return messageOf(outcome.error);
  return outcome.exitCode === 0 ? '' : `command terminated with non-zero exit code: exit status ${outcome.exitCode}`;
}
