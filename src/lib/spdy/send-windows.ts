import { DEFAULT_WINDOW, LARGEST_WINDOW } from './frames.ts';

/** The whole connection's window goes by the number that is no stream's. */
export const WHOLE_CONNECTION = 0;

/**
 * How much the other side lets us send.
 *
 * Most clients keep no windows: the library that kubectl, kubelet and crictl use never sends an update, and whoever waited for one
 * would stop for good after 64 KiB. So a client is taken to keep windows once it has sent an update or a setting of them, and to keep
 * none when it is found out that it does not ({@link keepsNone}). The books are kept either way, so that it may still begin.
 */
export class SendWindows {
  #kept: boolean | undefined;
  #initial = DEFAULT_WINDOW;
  readonly #left = new Map<number, number>([[WHOLE_CONNECTION, DEFAULT_WINDOW]]);

  /** It is not known yet whether the other side keeps windows. */
  get unknown(): boolean {
    return this.#kept === undefined;
  }

  open(streamId: number): void {
    this.#left.set(streamId, this.#initial);
  }

  close(streamId: number): void {
    this.#left.delete(streamId);
  }

  /** Bytes that may be sent on the stream now. */
  allowance(streamId: number): number {
    if (this.#kept === false) return Number.POSITIVE_INFINITY;
    return Math.max(0, Math.min(this.#left.get(streamId) ?? 0, this.#left.get(WHOLE_CONNECTION) ?? 0));
  }

  spend(streamId: number, bytes: number): void {
    for (const id of [streamId, WHOLE_CONNECTION]) {
      const left = this.#left.get(id);
      if (left !== undefined) this.#left.set(id, left - bytes);
    }
  }

  /** The other side's update of one window. False if the window becomes larger than it may be; one of a stream that is gone is nothing. */
  update(streamId: number, delta: number): boolean {
    this.#kept = true;
    const left = this.#left.get(streamId);
    if (left === undefined) return true;
    this.#left.set(streamId, left + delta);
    return left + delta <= LARGEST_WINDOW;
  }

  /** The other side's setting: what new streams begin with; those that are there change by the difference. */
  setInitial(bytes: number): boolean {
    this.#kept = true;
    const difference = bytes - this.#initial;
    this.#initial = bytes;
    let fits = bytes <= LARGEST_WINDOW;
    for (const [id, left] of this.#left) {
      if (id === WHOLE_CONNECTION) continue;
      this.#left.set(id, left + difference);
      if (left + difference > LARGEST_WINDOW) fits = false;
    }
    return fits;
  }

  /** The other side had its chance to say that it keeps windows, and said nothing. */
  keepsNone(): void {
    this.#kept ??= false;
  }
}
