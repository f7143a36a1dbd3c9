import { readFileSync } from 'node:fs';
import { errnoOf } from '../lib/errors.ts';
import { errnoError, errnoName } from './errno.ts';
import { libc, SYS } from './libc.ts';
import { parseProcessStat, type ProcessIdentity, type ProcessKey } from './procfs.ts';

/** How a process ended, as wait(2) tells it. */
export type WaitStatus =
  | { readonly kind: 'exited'; readonly code: number }
  | { readonly kind: 'signaled'; readonly signal: number; readonly coreDumped: boolean };

const PIDFD_INFO_EXIT = 8n;
const PIDFD_INFO_BYTES = 64;
const EXIT_CODE_OFFSET = 60;
// _IOWR(0xff, 11, struct pidfd_info of 64 bytes)
const PIDFD_GET_INFO = 0xc040ff0b;

export function decodeWaitStatus(status: number): WaitStatus {
  const signal = status & 0x7f;
  if (signal === 0) return { kind: 'exited', code: (status >> 8) & 0xff };
  return { kind: 'signaled', signal, coreDumped: (status & 0x80) !== 0 };
}

/** A descriptor on one process: it can never come to mean another. Close it. */
export class Pidfd implements Disposable {
  readonly key: ProcessKey;
  readonly fd: number;
  #closed = false;

  constructor(key: ProcessKey, fd: number) {
    this.key = key;
    this.fd = fd;
  }

  /** False when the process has ended. Throws PermissionDenied and the like. */
  signal(signal: number): boolean {
    const result = libc.pidfdSendSignal(SYS.pidfd_send_signal, this.fd, signal, null, 0);
    if (result >= 0) return true;
    const errno = libc.errno();
    if (errnoName(errno) === 'ESRCH') return false;
    throw errnoError(errno, `send signal ${String(signal)} to process ${String(this.key.pid)}`);
  }

  /**
   * How it ended, once it has: from the zombie's line in the process table, or from the kernel's memory of a reaped one
   * (PIDFD_INFO_EXIT, Linux 6.15). Undefined while it runs, and when nobody can tell any more.
   */
  exitStatus(): WaitStatus | undefined {
    const status = this.#statusOfReaped() ?? this.#statusOfZombie() ?? this.#statusOfReaped();
    return status === undefined ? undefined : decodeWaitStatus(status);
  }

  #statusOfReaped(): number | undefined {
    const info = Buffer.alloc(PIDFD_INFO_BYTES);
    info.writeBigUInt64LE(PIDFD_INFO_EXIT, 0);
    if (libc.ioctl(this.fd, PIDFD_GET_INFO, info) < 0) return undefined;
    if ((info.readBigUInt64LE(0) & PIDFD_INFO_EXIT) === 0n) return undefined;
    return info.readInt32LE(EXIT_CODE_OFFSET);
  }

  #statusOfZombie(): number | undefined {
    const identity = readIdentity(this.key.pid);
    return identity?.startTimeTicks === this.key.startTimeTicks ? identity.exitCode : undefined;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    libc.close(this.fd);
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/**
 * Opens the process, then compares: whoever has the pid after the opening and has the right start time had it at the
 * opening, too. Undefined when the process is gone (a zombie is not). Throws ResourceExhausted when out of descriptors.
 */
export function openPidfd(key: ProcessKey): Pidfd | undefined {
  const fd = Number(libc.pidfdOpen(SYS.pidfd_open, key.pid, 0));
  if (fd < 0) {
    const errno = libc.errno();
    if (['ESRCH', 'EINVAL'].includes(errnoName(errno))) return undefined;
    throw errnoError(errno, `open process ${String(key.pid)}`);
  }
  const pidfd = new Pidfd({ pid: key.pid, startTimeTicks: key.startTimeTicks }, fd);
  if (readIdentity(key.pid)?.startTimeTicks === key.startTimeTicks) return pidfd;
  pidfd.close();
  return undefined;
}

/** A read of /proc/PID/stat touches no disk: done here and now, before the zombie is reaped. */
function readIdentity(pid: number): ProcessIdentity | undefined {
  try {
    return parseProcessStat(readFileSync(`/proc/${String(pid)}/stat`, 'utf8'));
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes(errnoOf(error) ?? '')) return undefined;
    throw error;
  }
}
