import { randomBytes } from 'node:crypto';
import type { Clock, Timer } from '../../lib/clock.ts';
import { GantryError } from '../../lib/errors.ts';

/** A client that asked for a URL uses it at once; this is for one that is held up. */
const VALID_MS = 60_000;
const MAX_WAITING = 1_000;
const TOKEN_BYTES = 16;

/**
 * What the URLs that were given out stand for. A token is a secret: whoever has it may run a command in somebody's container. So it
 * cannot be guessed, works once, and only for a minute.
 */
export class UrlTokens<T> {
  readonly #clock: Clock;
  readonly #waiting = new Map<string, { readonly value: T; readonly expiry: Timer }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @throws ResourceExhausted when too many wait to be used */
  issue(value: T): string {
    if (this.#waiting.size >= MAX_WAITING) {
      throw new GantryError(
        'ResourceExhausted',
        `${MAX_WAITING} streaming URLs wait to be used: use them, or wait a minute until they are void`,
      );
    }
    const token = randomBytes(TOKEN_BYTES).toString('base64url');
    const expiry = this.#clock.after(VALID_MS, () => this.#waiting.delete(token));
    this.#waiting.set(token, { value, expiry });
    return token;
  }

  /** What the token stands for; it can still be taken. */
  look(token: string): T | undefined {
    return this.#waiting.get(token)?.value;
  }

  /** Voids the token. */
  take(token: string): void {
    this.#waiting.get(token)?.expiry.cancel();
    this.#waiting.delete(token);
  }

  close(): void {
    for (const token of [...this.#waiting.keys()]) this.take(token);
  }
}
