import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Clock, Timer } from '../clock.ts';
import { GantryError, messageOf } from '../errors.ts';
import type { Log } from '../log.ts';
import type { ReserveState, StoreThread } from './store-thread.ts';

/** Whether there is room on the disk for more than what ends. */
export interface Room {
  /** Why there is none, for people; undefined while there is. */
  readonly shortage: string | undefined;
  /** Looks now, and not at its next turn. */
  look(): Promise<void>;
}

/** For parts that stand alone. */
export const AMPLE_ROOM: Room = { shortage: undefined, look: () => Promise.resolve() };

/**
 * Throws ResourceExhausted (errno ENOSPC) while the disk is full: for what only makes it fuller. Who has just made room is not refused.
 * @param what `no new pod is taken`
 */
export async function demandRoom(room: Room, what: string): Promise<void> {
  if (room.shortage !== undefined) await room.look();
  refuseWithoutRoom(room, what);
}

/** The same by what the last look said: for where nothing can be waited for. */
export function refuseWithoutRoom(room: Room, what: string): void {
  if (room.shortage === undefined) return;
  throw new GantryError('ResourceExhausted', `${what}: ${room.shortage}`, { details: { errno: 'ENOSPC' } });
}

const LOOK_EVERY_MS = 2_000;
/** So often, in looks, what writes can do without new room is made up again where it was used. */
const UPKEEP_EVERY = 15;
/** With less than this a disk is as good as full. */
const SCANT_BYTES = 1 << 20;

/**
 * Watches over one disk and the reserve on it. The disk is full from the moment at which a piece of the reserve was given up, or next
 * to nothing is free, until the reserve is whole again and as much again is free.
 */
export class DiskRoom implements Room {
  readonly #deps: { readonly store: StoreThread; readonly path: string; readonly clock: Clock; readonly log: Log };
  readonly #timer: { current: Timer | undefined } = { current: undefined };
  #state: ReserveState;
  #scant = false;
  #looks = 0;
  #saidFull = false;
  #closed = false;

  private constructor(deps: { store: StoreThread; path: string; clock: Clock; log: Log }, state: ReserveState) {
    this.#deps = deps;
    this.#state = state;
  }

  /** @param deps.path where the reserve is, or is to be */
  static async open(deps: { store: StoreThread; path: string; clock: Clock; log: Log }): Promise<DiskRoom> {
    const room = new DiskRoom(deps, await deps.store.reserve(deps.path));
    deps.store.onReserve((state) => room.#now(state, room.#scant));
    await room.look();
    room.#schedule();
    return room;
  }

  get shortage(): string | undefined {
    const { path, bytes, leftBytes } = this.#state;
    if (!this.#scant && leftBytes === bytes) return undefined;
    const left = `${String(leftBytes >> 10)} of ${String(bytes >> 10)} KiB of the reserve ${path} are left`;
    return `the disk of ${dirname(path)} is full (${left}): make room there; stopping and deleting go on`;
  }

  get reservePath(): string {
    return this.#state.path;
  }

  /** Looks now, and makes the reserve whole if there is room for it. */
  async look(): Promise<void> {
    const { store, path, log } = this.#deps;
    try {
      const { bfree, bsize } = await statfs(dirname(path));
      const due = this.shortage !== undefined || this.#looks++ % UPKEEP_EVERY === 0;
      const state = due ? await store.reserve(path) : this.#state;
      this.#now(state, bfree * bsize < (this.#scant ? state.bytes : SCANT_BYTES));
    } catch (error) {
      if (!this.#closed) log.warn({ path, error: messageOf(error) }, 'the room on the disk could not be looked at');
    }
  }

  close(): void {
    this.#closed = true;
    this.#timer.current?.cancel();
  }

  #now(state: ReserveState, scant: boolean): void {
    this.#state = state;
    this.#scant = scant;
    const { shortage } = this;
    if ((shortage !== undefined) === this.#saidFull) return;
    this.#saidFull = shortage !== undefined;
    const { path, log } = this.#deps;
    if (shortage !== undefined) log.error({ path }, `nothing new is made: ${shortage}`);
    else log.info({ path }, 'the disk has room again');
  }

  #schedule(): void {
    this.#timer.current = this.#deps.clock.after(LOOK_EVERY_MS, () => {
      void this.look().finally(() => {
        if (!this.#closed) this.#schedule();
      });
    });
  }
}
