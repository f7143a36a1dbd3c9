import { raceSignal, type Op } from '../../lib/abort.ts';
import { messageOf } from '../../lib/errors.ts';
import { NO_FAULTS, type FaultPoints } from '../../lib/fault-points.ts';
import type { Database } from '../../lib/store/store-thread.ts';
import type { Digest } from './digest.ts';
import type { LayerStore } from './layer-store.ts';

export interface LayerEntry {
  readonly diffId: string;
  readonly sizeBytes: number;
  readonly inodes: number;
}

export const LAYER_SCHEMA = `
  CREATE TABLE IF NOT EXISTS unpacked_layers (
    diff_id TEXT PRIMARY KEY, size_bytes INTEGER NOT NULL, inodes INTEGER NOT NULL
  );
  CREATE TABLE IF NOT EXISTS unpacked_blobs (
    digest TEXT PRIMARY KEY, diff_id TEXT NOT NULL REFERENCES unpacked_layers ON DELETE CASCADE
  );
  CREATE INDEX IF NOT EXISTS unpacked_blobs_layer ON unpacked_blobs (diff_id);`;

/**
 * What is known of the layers that the layer store holds: their sizes, and which blobs were seen to unpack to them, so
 * that the same blob is not fetched again. It also decides when a layer may go: never while a pull has it pinned, and
 * a pull that wants a layer whose removal has begun waits for the removal's end.
 */
export class LayerLedger {
  readonly #db: Database;
  readonly #store: LayerStore;
  readonly #layers: Map<string, LayerEntry>;
  readonly #blobs: Map<string, string>;
  readonly #pins = new Map<string, number>();
  readonly #removals = new Map<string, Promise<void>>();
  readonly #faults: FaultPoints;
  #holds = 0;

  private constructor(
    db: Database,
    store: LayerStore,
    layers: Map<string, LayerEntry>,
    blobs: Map<string, string>,
    faults: FaultPoints,
  ) {
    this.#db = db;
    this.#store = store;
    this.#layers = layers;
    this.#blobs = blobs;
    this.#faults = faults;
  }

  /** Forgets what the layer store does not have any more. */
  static async open(db: Database, store: LayerStore, faults = NO_FAULTS): Promise<LayerLedger> {
    const rows = await db.read<{ diff_id: string; size_bytes: number; inodes: number }>(
      'SELECT * FROM unpacked_layers',
    );
    const gone = rows.filter((row) => !store.has(row.diff_id));
    if (gone.length > 0) {
      await db.write(
        ...gone.map((row) => ({ sql: 'DELETE FROM unpacked_layers WHERE diff_id = ?', params: [row.diff_id] })),
      );
    }
    const layers = new Map<string, LayerEntry>();
    for (const row of rows) {
      if (!store.has(row.diff_id)) continue;
      layers.set(row.diff_id, { diffId: row.diff_id, sizeBytes: row.size_bytes, inodes: row.inodes });
    }
    const blobs = await db.read<{ digest: string; diff_id: string }>('SELECT * FROM unpacked_blobs');
    return new LayerLedger(db, store, layers, new Map(blobs.map((row) => [row.digest, row.diff_id])), faults);
  }

  diffIdOf(blob: Digest): string | undefined {
    return this.#blobs.get(blob);
  }

  sizeOf(diffId: string): number {
    return this.#measure(diffId)?.sizeBytes ?? 0;
  }

  /** Of all layers, those of no image included: they take their space all the same. */
  totals(): { sizeBytes: number; inodes: number } {
    let sizeBytes = 0;
    let inodes = 0;
    for (const diffId of this.#candidates()) {
      const layer = this.#measure(diffId);
      sizeBytes += layer?.sizeBytes ?? 0;
      inodes += layer?.inodes ?? 0;
    }
    return { sizeBytes, inodes };
  }

  /**
   * A blob was unpacked: the layer is there. The pull does not wait for the note to be on the disk: a layer that is there
   * without one is only fetched once more. The image's own record is written behind it.
   */
  add(op: Op, blob: Digest, layer: LayerEntry): void {
    this.#layers.set(layer.diffId, layer);
    this.#blobs.set(blob, layer.diffId);
    const statement = {
      sql: `INSERT INTO unpacked_layers (diff_id, size_bytes, inodes) VALUES (?, ?, ?)
            ON CONFLICT (diff_id) DO UPDATE SET size_bytes = excluded.size_bytes, inodes = excluded.inodes`,
      params: [layer.diffId, layer.sizeBytes, layer.inodes],
    };
    this.#db.write(statement, blobStatement(blob, layer.diffId)).catch((error: unknown) => {
      op.log.warn({ layer: layer.diffId, error: messageOf(error) }, 'an unpacked layer could not be noted');
    });
  }

  /** A blob was seen to be a layer that is there: of another blob, or unpacked by a daemon that was killed before it noted so. */
  remember(op: Op, blob: Digest, diffId: Digest): void {
    this.add(op, blob, { diffId, ...(this.#store.measure(diffId) ?? { sizeBytes: 0, inodes: 0 }) });
  }

  /** Keeps layers from being removed until the pin is disposed of. */
  async pin(op: Op, diffIds: Iterable<string>): Promise<Disposable> {
    const pinned = [...new Set(diffIds)];
    for (const diffId of pinned) this.#pins.set(diffId, (this.#pins.get(diffId) ?? 0) + 1);
    const unpin = (): void => {
      for (const diffId of pinned) {
        const left = (this.#pins.get(diffId) ?? 1) - 1;
        if (left === 0) this.#pins.delete(diffId);
        else this.#pins.set(diffId, left);
      }
    };
    try {
      const removals = pinned.flatMap((diffId) => this.#removals.get(diffId) ?? []);
      if (removals.length > 0) await raceSignal(Promise.all(removals), op.signal);
    } catch (error) {
      unpin();
      throw error;
    }
    return { [Symbol.dispose]: unpin };
  }

  /** No sweep begins to remove anything until this is disposed of: for a layer whose name is known only when it is made. */
  hold(): Disposable {
    this.#holds++;
    return {
      [Symbol.dispose]: () => {
        this.#holds--;
      },
    };
  }

  /**
   * Removes the layers that nobody refers to and nobody holds. One that cannot be removed now (something still has it
   * mounted) stays known and is tried again by the next sweep.
   */
  async sweep(op: Op, isReferenced: (diffId: string) => boolean): Promise<void> {
    for (const diffId of this.#candidates()) {
      if (op.signal.aborted || this.#holds > 0) return;
      // Asked anew for each: a pull may have pinned it while the one before was removed.
      if (this.#isWanted(diffId, isReferenced)) continue;
      const removal = this.#remove(op, diffId).catch((error: unknown) => {
        op.log.warn({ diffId, error: messageOf(error) }, 'a layer of no image cannot be removed now');
      });
      this.#removals.set(diffId, removal);
      await removal;
      this.#removals.delete(diffId);
    }
  }

  /** What {@link sweep} would remove. */
  unused(isReferenced: (diffId: string) => boolean): string[] {
    if (this.#holds > 0) return [];
    return [...this.#candidates()].filter((diffId) => !this.#isWanted(diffId, isReferenced));
  }

  /** A daemon that was killed may have unpacked a layer and not noted it: the store knows it all the same. */
  #measure(diffId: string): Omit<LayerEntry, 'diffId'> | undefined {
    return this.#store.measure(diffId) ?? this.#layers.get(diffId);
  }

  #candidates(): Set<string> {
    return new Set([...this.#layers.keys(), ...(this.#store.list?.() ?? [])]);
  }

  #isWanted(diffId: string, isReferenced: (diffId: string) => boolean): boolean {
    return (
      isReferenced(diffId) ||
      this.#pins.has(diffId) ||
      this.#removals.has(diffId) ||
      this.#store.isHeld?.(diffId) === true
    );
  }

  async #remove(op: Op, diffId: string): Promise<void> {
    await this.#store.remove(op, diffId);
    await this.#faults.reach('remove-image/layer-removed');
    await this.#db.write({ sql: 'DELETE FROM unpacked_layers WHERE diff_id = ?', params: [diffId] });
    await this.#faults.reach('remove-image/layer-forgotten');
    this.#layers.delete(diffId);
    for (const [blob, layer] of this.#blobs) if (layer === diffId) this.#blobs.delete(blob);
  }
}

function blobStatement(blob: Digest, diffId: string): { sql: string; params: string[] } {
  return {
    sql: `INSERT INTO unpacked_blobs (digest, diff_id) VALUES (?, ?)
          ON CONFLICT (digest) DO UPDATE SET diff_id = excluded.diff_id`,
    params: [blob, diffId],
  };
}
