import os from 'node:os';
import { canceled } from './errors.ts';

/** A timer that can be taken back. Taking it back twice does nothing. */
export interface Timer {
  cancel(): void;
}

/**
 * Time as a parameter. Nothing outside this file reads a clock or sets a timer, so waits of minutes are tested in
 * milliseconds ({@link FakeClock}).
 */
export interface Clock {
  /** Wall time in milliseconds since the epoch. Only to be shown and recorded, never for deadlines: it can jump. */
  wallMs(): number;
  /** Milliseconds since some fixed point of this process, never going back. For deadlines inside the process. */
  monotonicMs(): number;
  /** CLOCK_BOOTTIME in milliseconds. With the boot id, a point in time that another process can compare with. */
  boottimeMs(): number;
  /** Runs `fn` once after `delayMs`. The timer does not keep the process alive. */
  after(delayMs: number, fn: () => void): Timer;
  /** Resolves after `delayMs`; rejects with Canceled (or the signal's own reason) when the signal fires first. */
  sleep(delayMs: number, signal?: AbortSignal): Promise<void>;
}

/** Node refuses timers beyond 2^31-1 ms: a longer one is set again when it fires. */
const LONGEST_TIMER_MS = 0x7fff_ffff;

/** A sleep in terms of `after`, shared by every clock. */
export function sleepWith(clock: Pick<Clock, 'after'>, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(abortReason(signal));
      return;
    }
    const onAbort = (): void => {
      timer.cancel();
      reject(abortReason(signal));
    };
    const timer = clock.after(delayMs, () => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    });
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

function abortReason(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason;
  return reason instanceof Error ? reason : canceled('canceled');
}

class SystemClock implements Clock {
  wallMs(): number {
    return Date.now();
  }

  monotonicMs(): number {
    return performance.now();
  }

  boottimeMs(): number {
    return os.uptime() * 1000;
  }

  after(delayMs: number, fn: () => void): Timer {
    let handle: NodeJS.Timeout;
    const arm = (restMs: number): void => {
      const stepMs = Math.min(Math.max(restMs, 0), LONGEST_TIMER_MS);
      handle = setTimeout(() => {
        if (restMs > stepMs) arm(restMs - stepMs);
        else fn();
      }, stepMs);
      handle.unref();
    };
    arm(delayMs);
    return { cancel: () => clearTimeout(handle) };
  }

  sleep(delayMs: number, signal?: AbortSignal): Promise<void> {
    return sleepWith(this, delayMs, signal);
  }
}

export const systemClock: Clock = new SystemClock();

/** RFC 3339 with milliseconds, as Kubernetes' MicroTime and log lines read it. */
export function rfc3339(wallMs: number): string {
  return new Date(wallMs).toISOString();
}
