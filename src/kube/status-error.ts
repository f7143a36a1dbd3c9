import { errnoOf, GantryError, kindOf, messageOf, type ErrorKind } from '../lib/errors.ts';
import type { Status, StatusCause, StatusDetails } from './objects.ts';
import { renderPath, type Issue } from './validate/issue.ts';

/** Between our errors and Kubernetes' Status objects, both ways. */

interface ReasonInfo {
  readonly code: number;
  readonly kind: ErrorKind;
}

/** Kubernetes' reasons that this API uses: the HTTP status and the kind of error that goes with each. */
const REASONS = {
  BadRequest: { code: 400, kind: 'InvalidArgument' },
  Unauthorized: { code: 401, kind: 'Unauthenticated' },
  Forbidden: { code: 403, kind: 'PermissionDenied' },
  NotFound: { code: 404, kind: 'NotFound' },
  MethodNotAllowed: { code: 405, kind: 'NotImplemented' },
  NotAcceptable: { code: 406, kind: 'InvalidArgument' },
  AlreadyExists: { code: 409, kind: 'AlreadyExists' },
  Conflict: { code: 409, kind: 'Aborted' },
  Expired: { code: 410, kind: 'OutOfRange' },
  RequestEntityTooLarge: { code: 413, kind: 'ResourceExhausted' },
  UnsupportedMediaType: { code: 415, kind: 'InvalidArgument' },
  Invalid: { code: 422, kind: 'InvalidArgument' },
  TooManyRequests: { code: 429, kind: 'ResourceExhausted' },
  InternalError: { code: 500, kind: 'Internal' },
  NotImplemented: { code: 501, kind: 'NotImplemented' },
  ServiceUnavailable: { code: 503, kind: 'Unavailable' },
  Timeout: { code: 504, kind: 'DeadlineExceeded' },
  // Not one of Kubernetes' own words, which has none for a full disk; clients show a reason that they do not know as it is.
  InsufficientStorage: { code: 507, kind: 'ResourceExhausted' },
} as const satisfies Record<string, ReasonInfo>;

export type StatusReason = keyof typeof REASONS;

/** What is said to the client about an error that did not begin as a Status. */
const REASON_OF_KIND: Readonly<Record<ErrorKind, StatusReason>> = {
  InvalidArgument: 'BadRequest',
  NotFound: 'NotFound',
  AlreadyExists: 'AlreadyExists',
  PermissionDenied: 'Forbidden',
  Unauthenticated: 'Unauthorized',
  ResourceExhausted: 'TooManyRequests',
  FailedPrecondition: 'Conflict',
  Aborted: 'Conflict',
  OutOfRange: 'Expired',
  NotImplemented: 'NotImplemented',
  Internal: 'InternalError',
  Unavailable: 'ServiceUnavailable',
  DataLoss: 'InternalError',
  DeadlineExceeded: 'Timeout',
  Canceled: 'Timeout',
  Unknown: 'InternalError',
};

/** Cause that carries the kind of an error of ours past a reason that stands for several kinds. */
const KIND_CAUSE = 'GantryErrorKind';

/** An error that reaches a client of the API as the Status with this reason. */
export function apiError(reason: StatusReason, message: string, details?: StatusDetails): GantryError {
  const { code, kind } = REASONS[reason];
  const status: Status = {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message,
    reason,
    ...(details === undefined ? {} : { details }),
    code,
  };
  return new GantryError(kind, message, { details: { status } });
}

export function objectNotFound(resource: string, name: string): GantryError {
  return apiError('NotFound', `${resource} ${JSON.stringify(name)} not found`, { name, kind: resource });
}

export function objectConflict(resource: string, name: string, why: string): GantryError {
  const message = `Operation cannot be fulfilled on ${resource} ${JSON.stringify(name)}: ${why}`;
  return apiError('Conflict', message, { name, kind: resource });
}

/** 422 with one cause for each issue. */
export function objectInvalid(kind: string, name: string, issues: readonly Issue[]): GantryError {
  const texts = issues.map(({ path, message }) => `${renderPath(path)}: ${message}`);
  const all = texts.length === 1 ? (texts[0] ?? '') : `[${texts.join(', ')}]`;
  const causes: StatusCause[] = issues.map((issue) => ({
    reason: issue.reason === 'FieldUnknown' ? 'FieldValueInvalid' : issue.reason,
    message: issue.message,
    field: renderPath(issue.path),
  }));
  return apiError('Invalid', `${kind} ${JSON.stringify(name)} is invalid: ${all}`, { name, kind, causes });
}

/** The Status to answer with, whatever was thrown. What is no error of ours is not shown to clients in full. */
export function statusOf(error: unknown): Status {
  const status = error instanceof GantryError ? error.details['status'] : undefined;
  if (isStatus(status)) return status;
  const kind = kindOf(error);
  const reason =
    kind === 'ResourceExhausted' && errnoOf(error) === 'ENOSPC' ? 'InsufficientStorage' : REASON_OF_KIND[kind];
  const told = apiError(reason, kind === 'Unknown' ? `internal error: ${messageOf(error)}` : messageOf(error));
  const answer = told.details['status'] as Status;
  if (told.kind === kind) return answer;
  return { ...answer, details: { causes: [{ reason: KIND_CAUSE, message: kind }] } };
}

/** The error that a Status from an API means. */
export function errorOfStatus(status: Status): GantryError {
  const told = status.details?.causes?.find((cause) => cause.reason === KIND_CAUSE)?.message;
  const byReason = Object.entries(REASONS).find(([reason]) => reason === status.reason)?.[1];
  const byCode = Object.values(REASONS).find(({ code }) => code === status.code);
  const kind = told !== undefined && Object.hasOwn(REASON_OF_KIND, told) ? (told as ErrorKind) : undefined;
  return new GantryError(
    kind ?? byReason?.kind ?? byCode?.kind ?? 'Unknown',
    status.message ?? 'the API gave no reason',
    {
      details: { status },
    },
  );
}

export function isStatus(value: unknown): value is Status {
  return typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'Status';
}
