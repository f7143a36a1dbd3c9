import { statusOfError } from '../kube/client.ts';
import { messageOf } from '../lib/errors.ts';

/** An error as kubectl words it: which side said it, its reason, its message. */
export function errorText(error: unknown): string {
  const status = statusOfError(error);
  if (status !== undefined) {
    return status.reason === undefined || status.reason === ''
      ? `Error from server: ${messageOf(error)}`
      : `Error from server (${status.reason}): ${messageOf(error)}`;
  }
  return `error: ${messageOf(error)}`;
}
