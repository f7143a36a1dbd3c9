import { statusOfError } from '../kube/client.ts';
import { messageOf } from '../lib/errors.ts';
import { printableLines } from './output/printable.ts';

/** An error as kubectl words it: which side said it, its reason, its message. */
export function errorText(error: unknown): string {
  const status = statusOfError(error);
  const message = printableLines(messageOf(error)).join('\n');
  if (status === undefined) return `error: ${message}`;
  return status.reason === undefined || status.reason === ''
    ? `Error from server: ${message}`
    : `Error from server (${status.reason}): ${message}`;
}
