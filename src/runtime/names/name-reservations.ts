import { alreadyExists } from '../../lib/errors.ts';

/**
 * Who has a name (pod or container name with its attempt). A call that is repeated while the first one still runs joins
 * it; a name that is taken says by whom, at which stage and since when (FAILURES.md row 41).
 * Kept in memory only: at start the records say which names are taken, so a half-made thing of a dead process holds none.
 */
export class NameReservations<Result> {
  readonly #noun: string;
  readonly #names = new Map<string, Reservation<Result>>();

  constructor(noun: string) {
    this.#noun = noun;
  }

  /** Notes that a finished object has the name. */
  take(name: string, id: string): void {
    this.#names.set(name, { id });
  }

  /**
   * Runs `make` with the name reserved, or joins the call that is making the same thing (`fingerprint` equal).
   * If `make` fails the name is free again, unless `keepsName` says that something is left under it.
   * `reuse` may hand out a finished object whose maker never got its answer.
   */
  async reserve(request: ReserveRequest<Result>): Promise<Result> {
    const { name, fingerprint } = request;
    const present = this.#names.get(name);
    if (present?.running !== undefined) {
      if (present.running.fingerprint === fingerprint) return await present.running.promise;
      throw alreadyExists(
        `${this.#noun} name ${name} is reserved for ${present.id} (${request.describe(present.id) ?? 'about to begin'}), which is being made with another configuration`,
      );
    }
    if (present !== undefined) {
      const reused = request.reuse(present.id);
      if (reused !== undefined) return reused;
      throw alreadyExists(
        `${this.#noun} name ${name} is taken by ${present.id} (${request.describe(present.id) ?? 'being removed'})`,
      );
    }
    const promise = request.make();
    const reservation: Reservation<Result> = { id: request.id, running: { promise, fingerprint } };
    this.#names.set(name, reservation);
    try {
      const result = await promise;
      if (this.#names.get(name) === reservation) this.#names.set(name, { id: request.id });
      return result;
    } catch (error) {
      if (this.#names.get(name) === reservation) {
        if (request.keepsName(request.id)) this.#names.set(name, { id: request.id });
        else this.#names.delete(name);
      }
      throw error;
    }
  }

  /** Frees the name if it is `id`'s. */
  release(name: string, id: string): void {
    if (this.#names.get(name)?.id === id) this.#names.delete(name);
  }
}

interface Reservation<Result> {
  readonly id: string;
  readonly running?: { readonly promise: Promise<Result>; readonly fingerprint: string };
}

export interface ReserveRequest<Result> {
  readonly name: string;
  readonly id: string;
  /** Equal for equal configurations. */
  readonly fingerprint: string;
  make(): Promise<Result>;
  /** After a failure: is there still an object (which could not be rolled back) that needs the name? */
  keepsName(id: string): boolean;
  reuse(id: string): Result | undefined;
  /** The present owner in words, for the error. */
  describe(id: string): string | undefined;
}
