import { GantryError, kindOf, messageOf, type ErrorKind } from '../lib/errors.ts';

/** What goes to a helper thread or process, and what comes back. */
export interface PeerRequest {
  readonly seq: number;
  readonly request: unknown;
}

export type PeerReply =
  | { readonly seq: number; readonly ok: true; readonly value: unknown }
  | { readonly seq: number; readonly ok: false; readonly error: PlainError };

export interface PlainError {
  readonly kind: ErrorKind;
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
}

export function toPlainError(error: unknown): PlainError {
  return {
    kind: kindOf(error),
    message: messageOf(error),
    details: error instanceof GantryError ? error.details : {},
  };
}

export function fromPlainError(plain: PlainError): GantryError {
  return new GantryError(plain.kind, plain.message, { details: plain.details });
}

/** The serving side: answers each request with what `handle` gives or throws. */
export async function answerRequest(
  { seq, request }: PeerRequest,
  handle: (request: never) => unknown,
  post: (reply: PeerReply) => void,
): Promise<void> {
  try {
    post({ seq, ok: true, value: await handle(request as never) });
  } catch (error) {
    post({ seq, ok: false, error: toPlainError(error) });
  }
}
