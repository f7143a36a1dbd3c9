/**
 * Errors are classes of advice: `kind` says what a caller may do about a failure, the message says what happened.
 * The kinds are those of the gRPC status codes, because that is the widest vocabulary that crosses a process border here;
 * nothing outside `cri/` knows the codes themselves (BEHAVIOUR.md K).
 */

export const ERROR_KINDS = [
  'InvalidArgument',
  'NotFound',
  'AlreadyExists',
  'PermissionDenied',
  'Unauthenticated',
  'ResourceExhausted',
  'FailedPrecondition',
  'Aborted',
  'OutOfRange',
  'NotImplemented',
  'Internal',
  'Unavailable',
  'DataLoss',
  'DeadlineExceeded',
  'Canceled',
  'Unknown',
] as const;

export type ErrorKind = (typeof ERROR_KINDS)[number];

export interface ErrorOptions {
  /** What failed underneath. Its message is kept out of ours: say what matters in the message. */
  readonly cause?: unknown;
  /** Facts for logs and for `explain`: paths, pids, exit codes. Never credentials. */
  readonly details?: Readonly<Record<string, unknown>>;
}

export class GantryError extends Error {
  override readonly name = 'GantryError';
  readonly kind: ErrorKind;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(kind: ErrorKind, message: string, options: ErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.kind = kind;
    this.details = options.details ?? {};
  }
}

export function invalidArgument(message: string, options?: ErrorOptions): GantryError {
  return new GantryError('InvalidArgument', message, options);
}

export function notFound(message: string, options?: ErrorOptions): GantryError {
  return new GantryError('NotFound', message, options);
}

export function alreadyExists(message: string, options?: ErrorOptions): GantryError {
  return new GantryError('AlreadyExists', message, options);
}

export function failedPrecondition(message: string, options?: ErrorOptions): GantryError {
  return new GantryError('FailedPrecondition', message, options);
}

export function unavailable(message: string, options?: ErrorOptions): GantryError {
  return new GantryError('Unavailable', message, options);
}

export function notImplemented(message: string, options?: ErrorOptions): GantryError {
  return new GantryError('NotImplemented', message, options);
}

export function internal(message: string, options?: ErrorOptions): GantryError {
  return new GantryError('Internal', message, options);
}

/** Something was dropped for whoever is told this: what it still has is not whole. */
export function dataLoss(message: string, options?: ErrorOptions): GantryError {
  return new GantryError('DataLoss', message, options);
}

export function deadlineExceeded(message: string, options?: ErrorOptions): GantryError {
  return new GantryError('DeadlineExceeded', message, options);
}

export function canceled(message: string, options?: ErrorOptions): GantryError {
  return new GantryError('Canceled', message, options);
}

/** The kind of any thrown value; `Unknown` for what is not ours. The outermost class wins. */
export function kindOf(error: unknown): ErrorKind {
  return error instanceof GantryError ? error.kind : 'Unknown';
}

export function isKind(error: unknown, ...kinds: readonly ErrorKind[]): boolean {
  return kinds.includes(kindOf(error));
}

/** The message of any thrown value, for a log line or for a message of our own. */
export function messageOf(error: unknown): string {
  if (error instanceof Error) return error.message;
  return String(error);
}

/** Puts `prefix: ` before the message and keeps kind, details and cause. */
export function withContext(prefix: string, error: unknown): GantryError {
  return new GantryError(kindOf(error), `${prefix}: ${messageOf(error)}`, {
    cause: error,
    details: error instanceof GantryError ? error.details : {},
  });
}

/** One error out of several: the only one as it is, else a joined message with the first one's kind. */
export function joinErrors(errors: readonly unknown[]): unknown {
  if (errors.length <= 1) return errors[0];
  return new GantryError(kindOf(errors[0]), errors.map(messageOf).join('\n'), {
    cause: new AggregateError(errors),
  });
}

/** Node's errno name (`ENOENT`) of a thrown value, if it has one. */
export function errnoOf(error: unknown): string | undefined {
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') return error.code;
  if (error instanceof GantryError && typeof error.details['errno'] === 'string') return error.details['errno'];
  return undefined;
}
