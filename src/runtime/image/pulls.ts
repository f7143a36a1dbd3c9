import { childSignal, type Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { canceled, messageOf, withContext } from '../../lib/errors.ts';
import type { AuthFields } from './auth/credentials.ts';
import type { ContentSource } from './content-source.ts';
import { digestOf, parseDigest, type Digest } from './digest.ts';
import type { ImageRecord } from './image-record.ts';
import type { NewImage } from './image-records.ts';
import type { Platform } from './platform.ts';
import type { LayerProgress, OnProgress } from './progress.ts';
import { formatReference, parseReference, repositoryName } from './reference.ts';
import { openRegistry, type RegistryAccess } from './registry/open-registry.ts';
import { resolveImage } from './resolve-image.ts';
import { SharedWork } from './shared-work.ts';

export interface PullsDeps {
  readonly clock: Clock;
  readonly registry: RegistryAccess;
  readonly platform: Platform;
  /** Whatever must be so before anything is brought in. */
  readonly check: () => Promise<void>;
  /** An image is on its way that may not be here whole. */
  readonly warmUp: () => void;
  /** Fetches what is not here of an image, and keeps it under these names. */
  readonly bringIn: (
    op: Op,
    source: ContentSource,
    image: NewImage,
    names: readonly string[],
    onProgress: OnProgress,
  ) => Promise<ImageRecord>;
  /** Gives an image that is here whole these names. Undefined when it is not here any more. */
  readonly name: (op: Op, id: string, names: readonly string[]) => Promise<ImageRecord | undefined>;
  readonly tell: (pull: EndedPull) => void;
}

export interface EndedPull {
  /** The whole reference. */
  readonly name: string;
  readonly startedMs: number;
  readonly outcome:
    { readonly kind: 'pulled'; readonly id: string } | { readonly kind: 'failed'; readonly why: string };
}

/** A pull whose callers' deadlines have passed goes on for this long: whoever asks again meanwhile joins it. */
const UNAWAITED_MS = 600_000;
/** Digests that are remembered: more than a machine has images. */
const MOST_DIGESTS = 2_000;

/** Pulls from registries: those of one image with the same credentials are one. */
export class Pulls {
  readonly #deps: PullsDeps;
  readonly #running: SharedWork<ImageRecord, LayerProgress>;
  readonly #closing = new AbortController();
  /**
   * Which image a manifest or an index turned out to be, of those that came from a registry since this process started: it
   * need not be asked for what they point to again. Never what an archive says of itself.
   */
  readonly #cameBy = new Map<Digest, string>();

  constructor(deps: PullsDeps) {
    this.#deps = deps;
    this.#running = new SharedWork({ clock: deps.clock, unawaitedMs: UNAWAITED_MS });
  }

  /** Aborts those that are under way. */
  close(): void {
    this.#closing.abort();
  }

  /** Aborts a pull of that name that nobody waits for any more: it would bring back what is being removed. */
  drop(reference: string): void {
    let name: string;
    try {
      name = formatReference(parseReference(reference));
    } catch {
      return; // an id
    }
    this.#running.dropUnawaited((key) => key.startsWith(`${name} `));
  }

  /** See {@link ImageStore.pull}. */
  async pull(op: Op, reference: string, auth: AuthFields | undefined, onProgress: OnProgress): Promise<ImageRecord> {
    const name = formatReference(parseReference(reference));
    const key = `${name} ${digestOf(JSON.stringify(auth ?? {}))}`;
    const { outcome } = await this.#running.run(op, key, onProgress, (shared, emit) =>
      this.#told(name, () => this.untilClosed(shared, (inner) => this.#pullNow(inner, reference, auth, emit))),
    );
    if (outcome.status === 'rejected') throw outcome.reason;
    return outcome.value;
  }

  /** Runs `fn` with an op that also ends when this is closed. */
  async untilClosed<T>(op: Op, fn: (op: Op) => Promise<T>): Promise<T> {
    using child = childSignal(op.signal);
    const { signal } = this.#closing;
    const onClose = (): void => {
      child.abort(canceled('the image store is closing'));
    };
    signal.addEventListener('abort', onClose, { once: true });
    if (signal.aborted) onClose();
    try {
      return await fn({ ...op, signal: child.signal });
    } finally {
      signal.removeEventListener('abort', onClose);
    }
  }

  async #told(name: string, pull: () => Promise<ImageRecord>): Promise<ImageRecord> {
    const { clock, tell } = this.#deps;
    const startedMs = clock.monotonicMs();
    try {
      const record = await pull();
      tell({ name, startedMs, outcome: { kind: 'pulled', id: record.id } });
      return record;
    } catch (error) {
      tell({ name, startedMs, outcome: { kind: 'failed', why: messageOf(error) } });
      throw withContext(`pull ${name}`, error);
    }
  }

  async #pullNow(
    op: Op,
    reference: string,
    auth: AuthFields | undefined,
    onProgress: OnProgress,
  ): Promise<ImageRecord> {
    const { clock, registry, platform, check, bringIn } = this.#deps;
    await check();
    const ref = parseReference(reference);
    using source = await openRegistry(op, registry, clock, ref, auth);
    const root = await source.fetchManifest(op, ref);
    const names = [`${repositoryName(ref)}@${root.digest}`];
    if (ref.digest === undefined) names.push(formatReference(ref));
    const here = await this.#nameKnown(op, root.digest, names, onProgress);
    if (here !== undefined) return here;
    this.#deps.warmUp();
    const image = await resolveImage(op, source, root, platform);
    const record = await bringIn(op, source, image, names, onProgress);
    this.#remember(root.digest, record.id);
    return record;
  }

  async #nameKnown(
    op: Op,
    digest: Digest,
    names: readonly string[],
    onProgress: OnProgress,
  ): Promise<ImageRecord | undefined> {
    const id = this.#cameBy.get(digest);
    const record = id === undefined ? undefined : await this.#deps.name(op, id, names);
    if (record === undefined) {
      this.#cameBy.delete(digest);
      return undefined;
    }
    for (const { digest: layer, sizeBytes } of record.layers) {
      onProgress({ layer: parseDigest(layer), state: 'present', bytes: sizeBytes, totalBytes: sizeBytes });
    }
    return record;
  }

  #remember(digest: Digest, id: string): void {
    this.#cameBy.set(digest, id);
    if (this.#cameBy.size <= MOST_DIGESTS) return;
    for (const oldest of this.#cameBy.keys()) {
      this.#cameBy.delete(oldest);
      return;
    }
  }
}
