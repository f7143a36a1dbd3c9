import type { JournalWriter } from '../../journal/journal.ts';
import { raceSignal, type Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { canceled, failedPrecondition, invalidArgument, notFound } from '../../lib/errors.ts';
import { NO_FAULTS, type FaultPoints } from '../../lib/fault-points.ts';
import type { Log } from '../../lib/log.ts';
import { AMPLE_ROOM, demandRoom, type Room } from '../../lib/store/disk-room.ts';
import type { Database } from '../../lib/store/store-thread.ts';
import { Slots } from '../../lib/slots.ts';
import type { RuntimePaths } from '../store/paths.ts';
import type { AuthFields } from './auth/credentials.ts';
import type { ContentSource } from './content-source.ts';
import { ImageCatalog } from './image-catalog.ts';
import type { ImageFsInfo, ImageRecord, RemovedImage } from './image-record.ts';
import { IMAGE_RECORD_SCHEMA, ImageRecords, type NewImage, type StoredImage } from './image-records.ts';
import type { ImportedImage } from './import/import-deps.ts';
import { importImages, type ImportRequest } from './import/import-images.ts';
import { IngestDirectory } from './ingest.ts';
import { LayerFetcher } from './layer-fetcher.ts';
import { LAYER_SCHEMA, LayerLedger } from './layer-ledger.ts';
import type { LayerStore } from './layer-store.ts';
import { hostPlatform, type Platform } from './platform.ts';
import type { OnProgress } from './progress.ts';
import { Pulls } from './pulls.ts';
import { formatReference, parseReference } from './reference.ts';
import type { RegistryAccess } from './registry/open-registry.ts';

/** Tables of the database that is handed to {@link ImageStore.open}. */
export const IMAGE_SCHEMA = `${LAYER_SCHEMA}${IMAGE_RECORD_SCHEMA}`;

export interface ImageStoreDeps {
  /** With {@link IMAGE_SCHEMA}. Durable. */
  readonly db: Database;
  readonly layers: LayerStore;
  readonly clock: Clock;
  readonly log: Log;
  readonly paths: Pick<RuntimePaths, 'root' | 'ingest'>;
  readonly registry: RegistryAccess;
  readonly platform?: Platform;
  /** References of images that are never garbage. */
  readonly pinned?: readonly string[];
  /** Who uses an image now, in words (`container 0123…`): such an image is removed only on purpose. */
  readonly imageUser?: (imageId: string) => string | undefined;
  readonly journal?: JournalWriter;
  readonly faults?: FaultPoints;
  /** Nothing is brought in while there is none (default: ample). */
  readonly room?: Room;
}

/**
 * The images of this machine: pulled, imported, named, removed. Lists and look-ups answer from memory. An image is
 * listed only when all of its layers are there.
 */
export class ImageStore {
  readonly #deps: ImageStoreDeps;
  readonly #faults: FaultPoints;
  readonly #platform: Platform;
  readonly #pinned: ReadonlySet<string>;
  readonly #records: ImageRecords;
  readonly #ledger: LayerLedger;
  readonly #fetcher: LayerFetcher;
  readonly #ingest: IngestDirectory;
  readonly #catalog: ImageCatalog;
  /** Images whose layers are not all there: not shown, but their other layers stay until `sweep`. */
  readonly #incomplete: Map<string, StoredImage>;
  readonly #pulls: Pulls;
  readonly #life = new AbortController();
  /** One change of the records at a time: each is a short transaction. */
  readonly #changes = new Slots(1, { what: 'changing which images there are' });

  private constructor(
    deps: ImageStoreDeps,
    ledger: LayerLedger,
    ingest: IngestDirectory,
    loaded: { images: readonly StoredImage[]; names: ReadonlyMap<string, string> },
  ) {
    this.#deps = deps;
    this.#faults = deps.faults ?? NO_FAULTS;
    this.#platform = deps.platform ?? hostPlatform();
    this.#pinned = new Set((deps.pinned ?? []).map((name) => formatReference(parseReference(name))));
    this.#records = new ImageRecords(deps.db);
    this.#ledger = ledger;
    this.#ingest = ingest;
    this.#fetcher = new LayerFetcher({ layers: deps.layers, ledger, ingest, faults: this.#faults });
    this.#pulls = new Pulls({
      clock: deps.clock,
      registry: deps.registry,
      platform: this.#platform,
      check: () => this.#demandRoom(),
      warmUp: () => deps.layers.warmUp?.(),
      bringIn: (...all) => this.#bringIn(...all),
      name: (...all) => this.#name(...all),
      tell: ({ name, startedMs, outcome }) => {
        if (outcome.kind === 'failed') this.#journal(name, 'image.pull-failed', outcome.why, 'failed', startedMs);
        else this.#journal(name, 'image.pulled', `pulled as ${outcome.id}`, 'ok', startedMs);
      },
    });
    const isWhole = (image: StoredImage): boolean => image.layers.every(({ diffId }) => deps.layers.has(diffId));
    this.#catalog = new ImageCatalog(loaded.images.filter(isWhole), loaded.names);
    this.#incomplete = new Map(loaded.images.filter((image) => !isWhole(image)).map((image) => [image.id, image]));
    for (const { id, layers } of this.#incomplete.values()) {
      const missing = layers.filter(({ diffId }) => !deps.layers.has(diffId)).map(({ diffId }) => diffId);
      deps.log.warn({ image: id, missing }, 'an image lacks layers and is not listed: pull it again');
    }
  }

  /** Loads what there is and removes nothing: call {@link sweep} once the containers are known. */
  static async open(deps: ImageStoreDeps): Promise<ImageStore> {
    const ledger = await LayerLedger.open(deps.db, deps.layers, deps.faults);
    const ingest = await IngestDirectory.open(deps.paths.ingest, deps.log);
    const loaded = await new ImageRecords(deps.db).load(deps.log);
    return new ImageStore(deps, ledger, ingest, loaded);
  }

  /** Aborts pulls that are under way. */
  close(): void {
    this.#life.abort(canceled('the image store is closing'));
    this.#pulls.close();
  }

  list(): ImageRecord[] {
    return [...this.#catalog.images()].map((image) => this.#view(image));
  }

  /** By reference, id, or the unambiguous beginning of an id. */
  resolve(refOrId: string): ImageRecord | undefined {
    const image = this.#catalog.resolve(refOrId);
    return image === undefined ? undefined : this.#view(image);
  }

  /** The configuration blob as it came. */
  async configText(id: string): Promise<string | undefined> {
    return await this.#records.configText(id);
  }

  /**
   * Brings an image in. The registry is asked each time, also for an image that is here: it decides whether the caller
   * may have it, and where a tag points now. Pulls of one image with the same credentials are one. When the last caller's
   * deadline has passed the pull goes on, and whoever asks again joins it; when the last caller leaves for another reason
   * it is aborted.
   *
   * Throws InvalidArgument (reference, not an image), NotFound (image, platform), Unauthenticated, PermissionDenied,
   * DataLoss (content that is damaged or not what its digest says), Unavailable (host), ResourceExhausted (disk, rate limit),
   * FailedPrecondition (this machine's configuration of the registry).
   */
  async pull(
    op: Op,
    reference: string,
    auth?: AuthFields,
    onProgress: OnProgress = () => undefined,
  ): Promise<ImageRecord> {
    return await this.#pulls.pull(op, reference, auth, onProgress);
  }

  async #demandRoom(): Promise<void> {
    await demandRoom(this.#deps.room ?? AMPLE_ROOM, 'no image is brought in');
  }

  /**
   * Imports an archive of `docker save`, an OCI archive or layout, or a root file system: told apart by content.
   * Throws InvalidArgument for anything else, otherwise as {@link pull}.
   */
  async import(op: Op, request: ImportRequest, onProgress: OnProgress = () => undefined): Promise<ImportedImage[]> {
    await this.#demandRoom();
    return await this.#pulls.untilClosed(op, async (inner) => {
      const bringIn = async (
        source: ContentSource,
        image: NewImage,
        names: readonly string[],
      ): Promise<ImageRecord> => {
        const startedMs = this.#deps.clock.monotonicMs();
        const record = await this.#bringIn(inner, source, image, names, onProgress);
        this.#journal(names[0] ?? image.id, 'image.imported', `imported as ${record.id}`, 'ok', startedMs);
        return record;
      };
      return await importImages(
        inner,
        {
          ingest: this.#ingest,
          platform: this.#platform,
          layers: this.#deps.layers,
          ledger: this.#ledger,
          onProgress,
          bringIn,
        },
        request,
      );
    });
  }

  async #bringIn(
    op: Op,
    source: ContentSource,
    image: NewImage,
    names: readonly string[],
    onProgress: OnProgress,
  ): Promise<ImageRecord> {
    const pin = await this.#ledger.pin(
      op,
      image.layers.map(({ diffId }) => diffId),
    );
    try {
      await this.#faults.reach('pull-image/pinned');
      await this.#fetcher.fetchAll(op, source, image.layers, onProgress);
      await this.#faults.reach('pull-image/fetched');
      const stored = await this.#changes.run(op, async () => {
        const made = await this.#records.put(
          image,
          names,
          this.#deps.clock.wallMs(),
          this.#catalog.get(image.id) ?? this.#incomplete.get(image.id),
        );
        await this.#faults.reach('pull-image/recorded');
        this.#incomplete.delete(made.id);
        this.#catalog.put(made, names);
        return made;
      });
      return this.#view(stored);
    } finally {
      pin[Symbol.dispose]();
    }
  }

  /** Gives an image that is here another name, taking it from whichever had it. Throws NotFound, InvalidArgument for a digest. */
  async tag(op: Op, refOrId: string, name: string): Promise<ImageRecord> {
    const full = formatReference(parseReference(name));
    if (full.includes('@')) throw invalidArgument(`${name}: a digest says what an image is, it cannot be given to one`);
    const image = this.#catalog.resolve(refOrId);
    const named = image === undefined ? undefined : await this.#name(op, image.id, [full]);
    if (named === undefined) throw notFound(`image ${refOrId}: there is none of that name`);
    return named;
  }

  async #name(op: Op, id: string, names: readonly string[]): Promise<ImageRecord | undefined> {
    return await this.#changes.run(op, async () => {
      const image = this.#catalog.get(id);
      if (image === undefined) return undefined;
      const lacking = this.#catalog.namesLacking(id, names);
      if (lacking.length > 0) {
        await this.#records.setNames(lacking, id);
        this.#catalog.put(image, lacking);
      }
      return this.#view(image);
    });
  }

  /**
   * What a person removes: by a tag or digest that name goes, and the image with its last one; by id the image with all its
   * names. Throws FailedPrecondition while something uses the image, unless `evenInUse`.
   */
  async remove(op: Op, refOrId: string, { evenInUse = false } = {}): Promise<RemovedImage> {
    return await this.#remove(op, refOrId, 'name', evenInUse);
  }

  /**
   * CRI's removal: the image with all its names, whichever of them is given, also while containers use it: they keep its
   * layers, which go when the last of those containers is removed.
   */
  async removeWhole(op: Op, refOrId: string): Promise<RemovedImage> {
    return await this.#remove(op, refOrId, 'whole', true);
  }

  /** Layers that no image has any more and no container holds go too. */
  async #remove(op: Op, refOrId: string, what: 'name' | 'whole', evenInUse: boolean): Promise<RemovedImage> {
    this.#pulls.drop(refOrId);
    const outcome = await this.#changes.run(op, async (): Promise<RemovedImage> => {
      const plan = this.#catalog.planRemoval(refOrId, what);
      if (plan.kind === 'absent') return plan;
      if (plan.kind === 'untag') {
        await this.#records.removeNames(plan.names);
        this.#catalog.removeNames(plan.names);
        return { kind: 'untagged', id: plan.id, names: plan.names };
      }
      const image = this.#catalog.get(plan.id);
      const user = evenInUse ? undefined : this.#deps.imageUser?.(plan.id);
      if (user !== undefined) {
        throw failedPrecondition(`image ${refOrId} is in use by ${user}`, {
          details: { reason: 'in-use', image: plan.id },
        });
      }
      // Out of sight first, so that no container is made from it while its record goes.
      this.#catalog.remove(plan.id);
      await this.#faults.reach('remove-image/begun');
      try {
        await this.#records.remove(plan.id);
        await this.#faults.reach('remove-image/forgotten');
      } catch (error) {
        if (image !== undefined) this.#catalog.put(image, plan.names);
        throw error;
      }
      return { kind: 'removed', id: plan.id, names: plan.names };
    });
    if (outcome.kind === 'removed') {
      this.#journal(outcome.names[0] ?? outcome.id, 'image.removed', `removed ${outcome.id}`, 'ok');
      // The image is gone, and whoever asks again is told so: its layers go whether or not this caller stays.
      await raceSignal(this.#sweepLayers({ ...op, signal: this.#life.signal }), op.signal);
      await this.#faults.reach('remove-image/swept');
    }
    return outcome;
  }

  /**
   * Drops incomplete images, then every layer that no image refers to and no container holds: what a crash or a failed pull
   * left. To be called once at start, when it is known which containers there are.
   */
  async sweep(op: Op): Promise<void> {
    for (const id of [...this.#incomplete.keys()]) {
      await this.#changes.run(op, async () => {
        // Pulled again in the meantime: then it is whole.
        if (!this.#incomplete.has(id)) return;
        await this.#records.remove(id);
        this.#incomplete.delete(id);
      });
    }
    await this.#sweepLayers(op);
  }

  /** Nobody holds these layers any more: those that no image refers to go. */
  async sweepReleased(op: Op, diffIds: readonly string[]): Promise<void> {
    if (diffIds.some((diffId) => !this.#isReferenced(diffId))) await this.#sweepLayers(op);
  }

  /** Layers that no image refers to, nor a pull that is under way, nor a container: what {@link sweep} would drop. */
  unusedLayers(): string[] {
    const referenced = this.#referencedLayers();
    return this.#ledger.unused((diffId) => referenced.has(diffId));
  }

  /** Downloads that no pull is at work on. */
  strays(): Promise<string[]> {
    return this.#ingest.strays();
  }

  #referencedLayers(): Set<string> {
    const images = [...this.#catalog.images(), ...this.#incomplete.values()];
    return new Set(images.flatMap(({ layers }) => layers.map(({ diffId }) => diffId)));
  }

  async #sweepLayers(op: Op): Promise<void> {
    const referenced = this.#referencedLayers();
    await this.#ledger.sweep(op, (diffId) => referenced.has(diffId) || this.#isReferenced(diffId));
  }

  /** For images that came while a sweep was under way. */
  #isReferenced(diffId: string): boolean {
    for (const image of this.#catalog.images()) if (image.layers.some((layer) => layer.diffId === diffId)) return true;
    return false;
  }

  /** From the sizes that were recorded when layers were unpacked. */
  fsInfo(): ImageFsInfo {
    const { sizeBytes, inodes } = this.#ledger.totals();
    return {
      mountpoint: this.#deps.paths.root,
      usedBytes: sizeBytes,
      inodesUsed: inodes,
      takenAtWallMs: this.#deps.clock.wallMs(),
    };
  }

  #view(image: StoredImage): ImageRecord {
    const { tags, digests } = this.#catalog.namesOf(image.id);
    const layers = image.layers.map((layer) => ({ ...layer, sizeBytes: this.#ledger.sizeOf(layer.diffId) }));
    return {
      id: image.id,
      repoTags: tags,
      repoDigests: digests,
      sizeBytes: layers.reduce((sum, layer) => sum + layer.sizeBytes, 0),
      config: image.config,
      layers,
      manifestDigest: image.manifestDigest,
      pinned: [...tags, ...digests].some((name) => this.#pinned.has(name)),
      storedAtWallMs: image.storedAtWallMs,
    };
  }

  #journal(image: string, what: string, message: string, outcome: 'ok' | 'failed', startedMs?: number): void {
    this.#deps.journal?.record({
      subject: { image },
      what,
      message,
      outcome,
      ...(startedMs === undefined ? {} : { durationMs: this.#deps.clock.monotonicMs() - startedMs }),
    });
  }
}
