/** What a Writable is told when a piece has been taken. */
type Taken = (error?: Error | null) => void;

/**
 * Lets a writer go on while its pieces are still being sent, up to a number of bytes: sent one at a time, each waits for the one before it to have
 * left this process, and a connection is idle for most of the time. Who writes more than that waits, and so does what it reads from.
 *
 * For one Writable, which writes its next piece when the one before has been taken. A failure of what was taken already is the connection's to tell.
 */
export class SendAhead {
  readonly #mostBytes: number;
  #underWay = 0;
  #held: Taken | undefined;

  /** @param mostBytes how much may be under way; one piece may be larger than this */
  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes;
  }

  /** Calls `send` at once, and `taken` when the next piece may come. */
  take(bytes: number, send: (sent: Taken) => void, taken: Taken): void {
    this.#underWay += bytes;
    const full = this.#underWay > this.#mostBytes;
    if (full) this.#held = taken;
    send((error) => {
      this.#underWay -= bytes;
      if (this.#underWay <= this.#mostBytes || (error !== null && error !== undefined)) this.#release(error);
    });
    if (!full) taken();
  }

  #release(error: Error | null | undefined): void {
    const held = this.#held;
    this.#held = undefined;
    held?.(error);
  }
}
