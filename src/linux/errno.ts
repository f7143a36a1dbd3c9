import { constants } from 'node:os';
import { GantryError, type ErrorKind, type ErrorOptions } from '../lib/errors.ts';

const NAMES: ReadonlyMap<number, string> = new Map(
  // Two names may share a number (EAGAIN and EWOULDBLOCK): the first one stays.
  Object.entries(constants.errno)
    .reverse()
    .map(([name, number]) => [number, name]),
);

const KINDS: Readonly<Record<string, ErrorKind>> = {
  ENOENT: 'NotFound',
  ENOTDIR: 'NotFound',
  ESRCH: 'NotFound',
  ENODEV: 'NotFound',
  ENXIO: 'NotFound',
  ESTALE: 'NotFound',
  EEXIST: 'AlreadyExists',
  EPERM: 'PermissionDenied',
  EACCES: 'PermissionDenied',
  EROFS: 'PermissionDenied',
  EBUSY: 'Unavailable',
  EAGAIN: 'Unavailable',
  ETXTBSY: 'Unavailable',
  EINTR: 'Unavailable',
  ETIMEDOUT: 'Unavailable',
  EIO: 'Unavailable',
  ENOTCONN: 'Unavailable',
  ENOSPC: 'ResourceExhausted',
  EDQUOT: 'ResourceExhausted',
  EMFILE: 'ResourceExhausted',
  ENFILE: 'ResourceExhausted',
  ENOMEM: 'ResourceExhausted',
  EUSERS: 'ResourceExhausted',
  EINVAL: 'InvalidArgument',
  ENAMETOOLONG: 'InvalidArgument',
  ELOOP: 'InvalidArgument',
  EBADF: 'InvalidArgument',
  E2BIG: 'InvalidArgument',
  ERANGE: 'OutOfRange',
  EOVERFLOW: 'OutOfRange',
  EXDEV: 'FailedPrecondition',
  ENOTEMPTY: 'FailedPrecondition',
  EISDIR: 'FailedPrecondition',
  ENOSYS: 'NotImplemented',
  EOPNOTSUPP: 'NotImplemented',
  ENOTTY: 'NotImplemented',
};

const WORDS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or directory',
  ENOTDIR: 'not a directory',
  ESRCH: 'no such process',
  ENODEV: 'no such device or file system',
  EEXIST: 'already exists',
  EPERM: 'operation not permitted',
  EACCES: 'permission denied',
  EROFS: 'read-only file system',
  EBUSY: 'device or resource busy',
  ENOSPC: 'no space left on device',
  EDQUOT: 'disk quota exceeded',
  EMFILE: 'too many open files',
  ENOMEM: 'out of memory',
  EINVAL: 'invalid argument',
  ERANGE: 'out of range',
  EOVERFLOW: 'too large',
  ENAMETOOLONG: 'file name too long',
  ELOOP: 'too many levels of symbolic links',
  EXDEV: 'crosses a mount or device boundary',
  ENOTEMPTY: 'directory not empty',
  ENOSYS: 'not known to this kernel',
  EOPNOTSUPP: 'operation not supported',
  EIO: 'input/output error',
};

/** `ENOENT` for 2. An unknown number becomes `errno 4711`. */
export function errnoName(errno: number): string {
  return NAMES.get(errno) ?? `errno ${String(errno)}`;
}

/** What a caller may do about an errno, given by name. */
export function kindOfErrno(name: string): ErrorKind {
  return KINDS[name] ?? 'Unknown';
}

/** The error of a failed system call: `what: device or resource busy (EBUSY)`, with `details.errno`. */
export function errnoError(errno: number | string, what: string, options: ErrorOptions = {}): GantryError {
  const name = typeof errno === 'number' ? errnoName(errno) : errno;
  const words = WORDS[name];
  return new GantryError(kindOfErrno(name), `${what}: ${words === undefined ? name : `${words} (${name})`}`, {
    ...options,
    details: { errno: name, ...options.details },
  });
}

/** An error of Node's own fs calls (`code: 'ENOENT'`) as one of ours; anything else becomes Unknown. */
export function fromNodeError(error: unknown, what: string): GantryError {
  if (error instanceof GantryError) return error;
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  if (code !== undefined) return errnoError(code, what, { cause: error });
  return new GantryError('Unknown', `${what}: ${error instanceof Error ? error.message : String(error)}`, {
    cause: error,
  });
}
