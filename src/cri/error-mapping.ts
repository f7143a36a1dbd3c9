import type { ErrorKind } from '../lib/errors.ts';
import { GantryError, kindOf, messageOf } from '../lib/errors.ts';

/**
 * Errors on the wire (BEHAVIOUR.md K). Each kind has one gRPC code and each code one kind, so nothing is lost on the way: a
 * deadline that passed inside a callee stays DeadlineExceeded and does not decay to Unknown (K56).
 */
const CODE_OF_KIND = {
  Canceled: 1,
  Unknown: 2,
  InvalidArgument: 3,
  DeadlineExceeded: 4,
  NotFound: 5,
  AlreadyExists: 6,
  PermissionDenied: 7,
  ResourceExhausted: 8,
  FailedPrecondition: 9,
  Aborted: 10,
  OutOfRange: 11,
  NotImplemented: 12,
  Internal: 13,
  Unavailable: 14,
  DataLoss: 15,
  Unauthenticated: 16,
} as const satisfies Record<ErrorKind, number>;

const KIND_OF_CODE: ReadonlyMap<number, ErrorKind> = new Map(
  Object.entries(CODE_OF_KIND).map(([kind, code]) => [code, kind as ErrorKind]),
);

/** What each kind is called where an error has no words of its own (K55). */
const TEXT_OF_KIND: Readonly<Record<ErrorKind, string>> = {
  Canceled: 'canceled',
  Unknown: 'unknown',
  InvalidArgument: 'invalid argument',
  DeadlineExceeded: 'deadline exceeded',
  NotFound: 'not found',
  AlreadyExists: 'already exists',
  PermissionDenied: 'permission denied',
  ResourceExhausted: 'resource exhausted',
  FailedPrecondition: 'failed precondition',
  Aborted: 'aborted',
  OutOfRange: 'out of range',
  NotImplemented: 'not implemented',
  Internal: 'internal error',
  Unavailable: 'unavailable',
  DataLoss: 'data loss',
  Unauthenticated: 'unauthenticated',
};

/** A message travels in an HTTP/2 header, percent-encoded (three bytes for one): more would not pass every client. */
const MAX_MESSAGE_CHARS = 4_096;

export interface GrpcStatus {
  readonly code: number;
  readonly details: string;
}

/** The status of any thrown value. What is one already (an error of a remote runtime) passes unchanged (K54). */
export function toGrpc(error: unknown): GrpcStatus {
  if (isGrpcStatus(error)) return { code: error.code, details: headerText(error.details) };
  const kind = error instanceof Error && error.name === 'AbortError' ? 'Canceled' : kindOf(error);
  const message = messageOf(error);
  return { code: CODE_OF_KIND[kind], details: headerText(message === '' ? TEXT_OF_KIND[kind] : message) };
}

/** The error behind a status, with the details of a `ServiceError` as its message; anything else as Unknown (K53). */
export function fromGrpc(error: unknown): GantryError {
  if (error instanceof GantryError) return error;
  if (!isGrpcStatus(error)) return new GantryError('Unknown', messageOf(error), { cause: error });
  const kind = KIND_OF_CODE.get(error.code) ?? 'Unknown';
  return new GantryError(kind, error.details === '' ? TEXT_OF_KIND[kind] : error.details, { cause: error });
}

function isGrpcStatus(error: unknown): error is GrpcStatus {
  return (
    typeof error === 'object' &&
    error !== null &&
    'code' in error &&
    typeof error.code === 'number' &&
    isCode(error.code) &&
    'details' in error &&
    typeof error.details === 'string'
  );
}

/** gRPC's codes, 0 for success among them. */
function isCode(code: number): boolean {
  return code === 0 || KIND_OF_CODE.has(code);
}

/** Half a surrogate pair cannot be percent-encoded: the library would throw while it sends the status. */
function headerText(message: string): string {
  const text = message.length > MAX_MESSAGE_CHARS ? `${message.slice(0, MAX_MESSAGE_CHARS - 2)} …` : message;
  return text.toWellFormed();
}
