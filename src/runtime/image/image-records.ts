import type { Log } from '../../lib/log.ts';
import { messageOf } from '../../lib/errors.ts';
import type { Database, Statement } from '../../lib/store/store-thread.ts';
import { decodeImageConfig, type OciImageConfig } from './image-config.ts';
import type { ImageLayer } from './resolve-image.ts';

export const IMAGE_RECORD_SCHEMA = `
  CREATE TABLE IF NOT EXISTS images (
    id TEXT PRIMARY KEY, manifest_digest TEXT, config TEXT NOT NULL, stored_at_ms INTEGER NOT NULL
  );
  CREATE TABLE IF NOT EXISTS image_names (
    name TEXT PRIMARY KEY, image_id TEXT NOT NULL REFERENCES images ON DELETE CASCADE
  );
  CREATE INDEX IF NOT EXISTS image_names_image ON image_names (image_id);
  CREATE TABLE IF NOT EXISTS image_layers (
    image_id TEXT NOT NULL REFERENCES images ON DELETE CASCADE, position INTEGER NOT NULL,
    diff_id TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (image_id, position)
  );`;

/** An image as it is kept: what does not change but by pulling, naming and removing. */
export interface StoredImage {
  readonly id: string;
  /** Digest of the manifest that it came by; undefined for an import without one. */
  readonly manifestDigest: string | undefined;
  readonly config: OciImageConfig;
  /** From the bottom up. */
  readonly layers: readonly { readonly diffId: string; readonly digest: string }[];
  readonly storedAtWallMs: number;
}

/** What is to be kept of an image that is wholly there. */
export interface NewImage {
  readonly id: string;
  readonly manifestDigest: string | undefined;
  readonly configText: string;
  readonly config: OciImageConfig;
  readonly layers: readonly ImageLayer[];
}

/** The rows behind the image store. Names are whole references; those with `@` are digests, the others tags. */
export class ImageRecords {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  /** A record that cannot be read is left out with a warning: one bad row must not keep the daemon from starting. */
  async load(log: Log): Promise<{ images: StoredImage[]; names: Map<string, string> }> {
    const rows = await this.#db.read<{
      id: string;
      manifest_digest: string | null;
      config: string;
      stored_at_ms: number;
    }>('SELECT * FROM images ORDER BY stored_at_ms, id');
    const layerRows = await this.#db.read<{ image_id: string; diff_id: string; digest: string }>(
      'SELECT image_id, diff_id, digest FROM image_layers ORDER BY image_id, position',
    );
    const layersOf = Map.groupBy(layerRows, (row) => row.image_id);
    const images: StoredImage[] = [];
    for (const row of rows) {
      try {
        images.push({
          id: row.id,
          manifestDigest: row.manifest_digest ?? undefined,
          config: decodeImageConfig(row.config),
          layers: (layersOf.get(row.id) ?? []).map((layer) => ({ diffId: layer.diff_id, digest: layer.digest })),
          storedAtWallMs: row.stored_at_ms,
        });
      } catch (error) {
        log.warn({ image: row.id, error: messageOf(error) }, 'image record cannot be read and is left out');
      }
    }
    const known = new Set(images.map((image) => image.id));
    const nameRows = await this.#db.read<{ name: string; image_id: string }>('SELECT * FROM image_names ORDER BY name');
    return {
      images,
      names: new Map(nameRows.filter((row) => known.has(row.image_id)).map((row) => [row.name, row.image_id])),
    };
  }

  /** Keeps an image and gives it names, taking them from other images. `before` is what is kept of it already. */
  async put(
    image: NewImage,
    names: readonly string[],
    wallMs: number,
    before: StoredImage | undefined,
  ): Promise<StoredImage> {
    const { id, configText, config } = image;
    const manifestDigest = image.manifestDigest ?? before?.manifestDigest;
    const storedAtWallMs = before?.storedAtWallMs ?? Math.round(wallMs);
    const layers = image.layers.map(({ blob, diffId }) => ({ diffId, digest: blob.digest }));
    await this.#db.write(
      {
        sql: `INSERT INTO images (id, manifest_digest, config, stored_at_ms) VALUES (?, ?, ?, ?)
              ON CONFLICT (id) DO UPDATE SET manifest_digest = excluded.manifest_digest`,
        params: [id, manifestDigest ?? null, configText, storedAtWallMs],
      },
      { sql: 'DELETE FROM image_layers WHERE image_id = ?', params: [id] },
      ...layers.map(({ diffId, digest }, position): Statement => ({
        sql: 'INSERT INTO image_layers (image_id, position, diff_id, digest) VALUES (?, ?, ?, ?)',
        params: [id, position, diffId, digest],
      })),
      ...names.map((name) => nameStatement(name, id)),
    );
    return { id, manifestDigest, config, layers, storedAtWallMs };
  }

  async setNames(names: readonly string[], id: string): Promise<void> {
    await this.#db.write(...names.map((name) => nameStatement(name, id)));
  }

  async removeNames(names: readonly string[]): Promise<void> {
    if (names.length === 0) return;
    await this.#db.write(...names.map((name) => ({ sql: 'DELETE FROM image_names WHERE name = ?', params: [name] })));
  }

  async remove(id: string): Promise<void> {
    await this.#db.write({ sql: 'DELETE FROM images WHERE id = ?', params: [id] });
  }

  /** The configuration as it came, byte for byte: its digest is the image's id. */
  async configText(id: string): Promise<string | undefined> {
    const rows = await this.#db.read<{ config: string }>('SELECT config FROM images WHERE id = ?', id);
    return rows[0]?.config;
  }
}

function nameStatement(name: string, id: string): Statement {
  return {
    sql: 'INSERT INTO image_names (name, image_id) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET image_id = excluded.image_id',
    params: [name, id],
  };
}
