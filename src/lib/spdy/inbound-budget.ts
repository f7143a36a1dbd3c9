/** What one connection may hold that its streams' readers have not taken. */
const MAX_HELD = 4 * 1024 * 1024;
/** What one stream may hold before it makes the others wait: a client that keeps windows never gets there. */
const MAX_HELD_BY_STREAM = 320 * 1024;
/** What keeping one more piece costs, however small it is. */
const COST_OF_PIECE = 64;

/**
 * How much a connection holds of what has arrived and nobody has read. When it is too much, nothing more is read off the connection:
 * the kernel's buffers fill, and the client waits. That also holds up the client's other streams, and is how a client is slowed down
 * that keeps no windows.
 */
export class InboundBudget {
  #held = 0;
  #overfull = 0;
  #waiting: (() => void) | undefined;

  /** The account of one stream. */
  account(): InboundAccount {
    return new InboundAccount((held, overfull) => {
      this.#held += held;
      this.#overfull += overfull;
      if (!this.exhausted) this.wake();
    });
  }

  get exhausted(): boolean {
    return this.#held > MAX_HELD || this.#overfull > 0;
  }

  /** Resolves when there may be room again, or on {@link wake}. For one waiter at a time. */
  async room(): Promise<void> {
    if (this.exhausted) {
      await new Promise<void>((resolve) => {
        this.#waiting = resolve;
      });
    }
  }

  wake(): void {
    this.#waiting?.();
    this.#waiting = undefined;
  }
}

export class InboundAccount {
  readonly #change: (held: number, overfull: number) => void;
  #held = 0;

  constructor(change: (held: number, overfull: number) => void) {
    this.#change = change;
  }

  hold(piece: Buffer): void {
    this.#add(piece.length + COST_OF_PIECE);
  }

  release(piece: Buffer): void {
    this.#add(-piece.length - COST_OF_PIECE);
  }

  releaseAll(): void {
    this.#add(-this.#held);
  }

  #add(cost: number): void {
    const was = this.#held > MAX_HELD_BY_STREAM;
    this.#held += cost;
    const is = this.#held > MAX_HELD_BY_STREAM;
    this.#change(cost, Number(is) - Number(was));
  }
}

/**
 * The piece, in memory of its own where it is a small part of something larger: one byte that is kept must not keep the 64 KiB alive
 * that it came in.
 */
export function ownBytes(piece: Buffer): Buffer {
  if (piece.length * 4 >= piece.buffer.byteLength) return piece;
  const copy = Buffer.allocUnsafeSlow(piece.length);
  piece.copy(copy);
  return copy;
}
