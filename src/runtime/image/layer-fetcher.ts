import { childSignal, type Op } from '../../lib/abort.ts';
import { canceled, GantryError, withContext } from '../../lib/errors.ts';
import type { FaultPoints } from '../../lib/fault-points.ts';
import { Slots } from '../../lib/slots.ts';
import { sniffFile, type Compression } from './compression.ts';
import type { ContentSource } from './content-source.ts';
import { shortDigest, type Digest } from './digest.ts';
import type { IngestDirectory } from './ingest.ts';
import type { LayerLedger } from './layer-ledger.ts';
import type { LayerStore } from './layer-store.ts';
import { layerCompression } from './media-types.ts';
import type { LayerProgress, OnProgress } from './progress.ts';
import type { ImageLayer } from './resolve-image.ts';
import { SharedWork } from './shared-work.ts';
import { verifyDiffId } from './verify-diff-id.ts';

export interface LayerFetcherDeps {
  readonly layers: LayerStore;
  readonly ledger: LayerLedger;
  readonly ingest: IngestDirectory;
  readonly faults: FaultPoints;
}

/** Downloads of one pull beside each other: what registries and slow disks bear well. */
const DOWNLOADS_PER_PULL = 3;
/** Unpacking is bound by disk and processor, whoever asked for it. */
const UNPACKS_AT_ONCE = 2;

/** Brings layers in: each one once, however many pulls want it at the same time. */
export class LayerFetcher {
  readonly #deps: LayerFetcherDeps;
  readonly #shared = new SharedWork<void, LayerProgress>();
  readonly #unpacks = new Slots(UNPACKS_AT_ONCE, { what: 'unpacking a layer' });

  constructor(deps: LayerFetcherDeps) {
    this.#deps = deps;
  }

  /** All of an image's layers, or the first failure; the others are then aborted. */
  async fetchAll(op: Op, source: ContentSource, layers: readonly ImageLayer[], onProgress: OnProgress): Promise<void> {
    const downloads = new Slots(DOWNLOADS_PER_PULL, { what: 'downloading a layer of the image' });
    const unique = new Map(layers.map((layer) => [layer.blob.digest, layer]));
    using child = childSignal(op.signal);
    const inner: Op = { ...op, signal: child.signal };
    let first: { error: unknown } | undefined;
    // All are waited for, also after a failure: nothing of this pull may go on behind its caller's back.
    await Promise.all(
      [...unique.values()].map((layer) =>
        this.#fetch(inner, source, layer, downloads, onProgress).catch((error: unknown) => {
          first ??= { error };
          child.abort(canceled('another layer of the image failed'));
        }),
      ),
    );
    if (first !== undefined) throw first.error;
  }

  async #fetch(
    op: Op,
    source: ContentSource,
    layer: ImageLayer,
    downloads: Slots,
    onProgress: OnProgress,
  ): Promise<void> {
    const { digest, sizeBytes } = layer.blob;
    for (;;) {
      if (this.#isPresent(layer)) {
        onProgress({ layer: digest, state: 'present', bytes: sizeBytes, totalBytes: sizeBytes });
        return;
      }
      // By what comes out, not by the blob: of two blobs that claim to be one layer, the second is checked against it.
      const { joined, outcome } = await this.#shared.run(op, layer.diffId, onProgress, (shared, emit) =>
        this.#bring(shared, source, layer, downloads, emit),
      );
      if (joined) continue; // Another pull's failure says nothing about our source, its success nothing about our blob.
      if (outcome.status === 'rejected') throw outcome.reason;
      return;
    }
  }

  /**
   * Only a blob that was seen to unpack to this layer counts. A configuration may claim any diffId: believing it would
   * hand one image's files to another that never had them.
   */
  #isPresent({ blob, diffId }: ImageLayer): boolean {
    if (!this.#deps.layers.has(diffId)) return false;
    return blob.digest === diffId || this.#deps.ledger.diffIdOf(blob.digest) === diffId;
  }

  async #bring(
    op: Op,
    source: ContentSource,
    { blob, diffId }: ImageLayer,
    downloads: Slots,
    emit: (event: LayerProgress) => void,
  ): Promise<void> {
    const { ingest, layers, ledger, faults } = this.#deps;
    const tell = (state: LayerProgress['state'], bytes: number): void => {
      emit({ layer: blob.digest, state, bytes, totalBytes: blob.sizeBytes });
    };
    tell('waiting', 0);
    await ingest.withFile(shortDigest(blob.digest).replace(':', '-'), async (path) => {
      await downloads.run(op, async () => {
        tell('downloading', 0);
        await source.save(op, blob, path, (bytes) => {
          tell('downloading', bytes);
          faults.pass('pull-image/downloading');
        });
      });
      await faults.reach('pull-image/downloaded');
      await this.#unpacks.run(op, async () => {
        tell('unpacking', 0);
        const compression = await compressionOf(path, blob.mediaType, blob.digest);
        try {
          if (layers.has(diffId)) {
            await verifyDiffId(op, path, compression, diffId);
            ledger.remember(op, blob.digest, diffId);
            return;
          }
          const unpacked = await layers.unpack(op, {
            diffId,
            source: path,
            onProgress: (bytes) => {
              tell('unpacking', bytes);
              faults.pass('pull-image/unpacking');
            },
          });
          await faults.reach('pull-image/unpacked');
          ledger.add(op, blob.digest, { diffId, sizeBytes: unpacked.sizeBytes, inodes: unpacked.inodes ?? 0 });
          await faults.reach('pull-image/layer-noted');
        } catch (error) {
          throw withContext(`layer ${blob.digest}`, error);
        }
      });
      tell('done', blob.sizeBytes);
    });
    await faults.reach('pull-image/layer-done');
  }
}

/** What the blob's bytes say, because media types lie: Docker's own tools label plain archives as gzip at times. */
async function compressionOf(path: string, mediaType: string, digest: Digest): Promise<Compression> {
  const found = await sniffFile(path);
  if (found === 'gzip' || found === 'zstd') return found;
  if (found === 'tar') return 'none';
  const promised = layerCompression(mediaType) ?? 'none';
  throw new GantryError(
    'DataLoss',
    promised === 'none'
      ? `layer ${digest}: not a tar archive`
      : `layer ${digest}: corrupt ${promised} data: it does not even begin as such`,
    { details: { reason: 'corrupt-layer', mediaType } },
  );
}
