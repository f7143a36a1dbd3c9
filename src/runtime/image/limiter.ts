import { canceled } from '../../lib/errors.ts';

/** Lets at most `limit` run at the same time, the rest in the order of arrival. */
export class Limiter {
  readonly #limit: number;
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(limit: number) {
    this.#limit = limit;
  }

  async run<T>(signal: AbortSignal, fn: () => Promise<T>): Promise<T> {
    await this.#enter(signal);
    try {
      return await fn();
    } finally {
      this.#running--;
      this.#waiting.shift()?.();
    }
  }

  #enter(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.reject(reasonOf(signal));
    if (this.#running < this.#limit) {
      this.#running++;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const enter = (): void => {
        signal.removeEventListener('abort', onAbort);
        this.#running++;
        resolve();
      };
      const onAbort = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(enter), 1);
        reject(reasonOf(signal));
      };
      this.#waiting.push(enter);
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }
}

function reasonOf(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  return reason instanceof Error ? reason : canceled('canceled');
}
