import { randomBytes } from 'node:crypto';
import { chmod, lstat, mkdir, readdir, rename } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { detached, raceSignal, type Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { failedPrecondition, invalidArgument, isKind, kindOf, messageOf, notFound } from '../../lib/errors.ts';
import { NO_FAULTS, type FaultPoints } from '../../lib/fault-points.ts';
import type { Log } from '../../lib/log.ts';
import { fromNodeError } from '../../linux/errno.ts';
import type { RuntimePaths } from '../store/paths.ts';
import { FILES_NAME, readMarker, type LayerMarker } from './layer-marker.ts';
import { removeTree, type TreeRemover } from './tree-remover.ts';
import { DEFAULT_UNPACK_LIMITS, type UnpackLimits } from './unpack/unpack-limits.ts';
import { layerName } from './worker/layer-name.ts';
import type { LayerJob, TreeUsage } from './worker/protocol.ts';
import type { SnapshotThread } from './worker/snapshot-thread.ts';

export interface LayerDirectoryDeps {
  readonly paths: Pick<RuntimePaths, 'layers'>;
  readonly thread: SnapshotThread;
  /** For what is asked often and must neither wait for an unpacking nor hold one up. Default: the shared one. */
  readonly usageThread?: SnapshotThread;
  readonly remover: TreeRemover;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits?: UnpackLimits;
  /** Default: true. Without it a layer may be torn after a power cut: only for a root that does not outlive one. */
  readonly durable?: boolean;
  readonly faults?: FaultPoints;
}

export interface LayerRequest {
  /** sha256 (or sha512) of the uncompressed archive, as the image's configuration says. */
  readonly diffId: string;
  /** A file with the blob as it came: gzip, zstd or plain, found by its first bytes. */
  readonly source: string;
  /** Bytes of `source` read so far; about once per MiB. */
  readonly onProgress?: (bytes: number) => void;
}

export interface LayerResult {
  readonly diffId: string;
  /** Content of the layer's files. */
  readonly sizeBytes: number;
  /** Members of the layer. */
  readonly inodes: number;
}

const DIFF_ID = /^(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$/;
const LAYER_NAME = /^(?:[0-9a-f]{64}|[0-9a-f]{128})$/;
/** Unfinished layers, and layers that are being removed: nothing with these names is ever used, at start all go. */
const STAGING_PREFIX = '.staging-';
const REMOVED_PREFIX = '.removed-';
/** Removing a big staged layer takes seconds on a slow disk; nothing waits for it. */
const TIDY_MS = 120_000;

/**
 * The unpacked layers, one directory each: `<root>/layers/<hex of diffId>/{fs,layer.json}`.
 *
 *     absent --unpack--> .staging-*  --syncfs, rename--> <hex> --remove--> .removed-* --> absent
 *
 * A layer that a container's snapshot uses is never removed under it. It stays a layer like any other, also when no image
 * refers to it any more; {@link LayerDirectory.onReleased} tells when the last holder has let go of it.
 */
export class LayerDirectory {
  readonly #deps: LayerDirectoryDeps;
  readonly #directory: string;
  readonly #limits: UnpackLimits;
  readonly #faults: FaultPoints;
  readonly #layers = new Map<string, LayerMarker>();
  /** diffId -> the holders (container ids) that have it mounted or will. */
  readonly #holders = new Map<string, Set<string>>();
  #onReleased: (diffIds: readonly string[]) => void = () => undefined;
  /** diffId -> an unpack or remove under way. */
  readonly #busy = new Map<string, Promise<unknown>>();
  /** Names of staged and set-aside layers that are being worked on: the others are left-overs. */
  readonly #working = new Set<string>();
  /** Removals that nobody waits for. */
  readonly #tidying = new Set<Promise<void>>();

  private constructor(deps: LayerDirectoryDeps) {
    this.#deps = deps;
    this.#directory = deps.paths.layers;
    this.#limits = deps.limits ?? DEFAULT_UNPACK_LIMITS;
    this.#faults = deps.faults ?? NO_FAULTS;
  }

  /**
   * Finds the whole layers; what a crash has left half done is removed in the background. One bad directory is skipped,
   * never fatal.
   */
  static async open(op: Op, deps: LayerDirectoryDeps): Promise<LayerDirectory> {
    const layers = new LayerDirectory(deps);
    await layers.#scan(op);
    return layers;
  }

  /** Whether the layer is there whole. From memory. */
  has(diffId: string): boolean {
    return this.#layers.has(diffId);
  }

  /** Every layer for which `has` is true. */
  list(): string[] {
    return [...this.#layers.keys()];
  }

  /** Whether somebody holds the layer: it cannot be removed now. From memory. */
  isHeld(diffId: string): boolean {
    return (this.#holders.get(diffId)?.size ?? 0) > 0;
  }

  /** Who is told which layers nobody holds any more, as soon as that is so. One listener. */
  onReleased(listener: (diffIds: readonly string[]) => void): void {
    this.#onReleased = listener;
  }

  /** What the layer takes, as it was counted when it was unpacked. Undefined for one that is not there. */
  measure(diffId: string): Omit<LayerResult, 'diffId'> | undefined {
    const marker = this.#layers.get(diffId);
    return marker === undefined ? undefined : { sizeBytes: marker.bytes, inodes: marker.entries };
  }

  /** What the layer takes on the disk, by looking at all of it. @throws NotFound */
  async usage(op: Op, diffId: string): Promise<TreeUsage> {
    this.marker(diffId);
    const { thread, usageThread = thread } = this.#deps;
    return await usageThread.run(op, 'usage', { directory: join(this.#directory, layerName(diffId)) });
  }

  /** @throws NotFound */
  marker(diffId: string): LayerMarker {
    const marker = this.#layers.get(diffId);
    if (marker === undefined) throw notFound(`layer ${diffId} is not on this machine`);
    return marker;
  }

  /** Where the layer's files are. */
  filesOf(diffId: string): string {
    return join(this.#directory, layerName(diffId), FILES_NAME);
  }

  /** For overlays that need a lower directory and have none. */
  get emptyDirectory(): string {
    return join(this.#directory, '.empty/0');
  }

  /**
   * Unpacks one layer, all of it or nothing. The same layer asked for twice at a time is unpacked once; if that fails
   * for the first caller (its file may be bad, or it gave up), the second one tries with its own.
   * @throws DataLoss for a damaged stream or another content than `diffId`, InvalidArgument for a member that leaves the
   * layer or makes no sense, NotImplemented for an unknown compression, ResourceExhausted beyond the limits or when the
   * disk is full.
   */
  async unpack(op: Op, { diffId, source, onProgress }: LayerRequest): Promise<LayerResult> {
    if (!DIFF_ID.test(diffId)) throw invalidArgument(`${JSON.stringify(diffId.slice(0, 150))} is no diffId`);
    for (;;) {
      op.signal.throwIfAborted();
      const there = this.#layers.get(diffId);
      if (there !== undefined) return resultOf(there);
      const busy = this.#busy.get(diffId);
      if (busy === undefined) break;
      await raceSignal(
        busy.catch(() => undefined),
        op.signal,
      );
    }
    return await this.#alone(diffId, async () => {
      await this.#setAside(layerName(diffId));
      return await this.#make(op, { kind: 'archive', path: source }, diffId, onProgress);
    });
  }

  /**
   * Makes a layer of a root filesystem: a directory (copied: ownership, hard links, attributes; sockets left out) or a
   * tar file (compressed or not). The layer's diffId is what comes out; the same content always gives the same.
   */
  async adoptRootfs(op: Op, path: string, onProgress?: (bytes: number) => void): Promise<LayerResult> {
    const stat = await lstat(path).catch((error: unknown) => {
      throw fromNodeError(error, `root filesystem ${path}`);
    });
    if (!stat.isDirectory() && !stat.isFile()) {
      throw invalidArgument(`root filesystem ${path}: is neither a directory nor a tar file`);
    }
    return await this.#make(op, { kind: stat.isDirectory() ? 'directory' : 'archive', path }, undefined, onProgress);
  }

  /** Gone is a success. @throws FailedPrecondition while somebody holds it, Unavailable naming what blocks it. */
  async remove(op: Op, diffId: string): Promise<void> {
    if (!DIFF_ID.test(diffId)) throw invalidArgument(`${JSON.stringify(diffId.slice(0, 150))} is no diffId`);
    while (this.#busy.has(diffId)) {
      await raceSignal(this.#busy.get(diffId)?.catch(() => undefined) ?? Promise.resolve(), op.signal);
    }
    if (!this.#layers.has(diffId)) return;
    if (this.isHeld(diffId)) throw failedPrecondition(`layer ${diffId} is in use`);
    await this.#removeNow(op, diffId);
  }

  /** A layer is about to be unpacked: the thread for it starts while its blob is still on the way. */
  warmUp(): void {
    this.#deps.thread.warmUp();
  }

  /** Keeps layers from being removed while `holder` lives. Holding twice is holding once. @throws NotFound */
  hold(holder: string, diffIds: readonly string[]): void {
    for (const diffId of diffIds) this.marker(diffId);
    for (const diffId of diffIds) {
      const holders = this.#holders.get(diffId) ?? new Set();
      this.#holders.set(diffId, holders.add(holder));
    }
  }

  /** Lets go of all that `holder` holds. */
  release(holder: string): void {
    const released: string[] = [];
    for (const [diffId, holders] of this.#holders) {
      if (!holders.delete(holder) || holders.size > 0) continue;
      this.#holders.delete(diffId);
      released.push(diffId);
    }
    if (released.length > 0) this.#onReleased(released);
  }

  /** Paths of half-made and half-removed layers that nobody is at work on. */
  async strays(): Promise<string[]> {
    const names = await readdir(this.#directory);
    return names
      .filter((name) => isStaged(name) && !this.#working.has(name))
      .map((name) => join(this.#directory, name));
  }

  /** Removes what {@link strays} found. @throws InvalidArgument for anything else, Unavailable naming what blocks it. */
  async removeStray(op: Op, path: string): Promise<void> {
    const name = basename(path);
    if (!isStaged(name) || dirname(path) !== this.#directory) throw invalidArgument(`${path} is no staged layer`);
    if (!this.#working.has(name)) await this.#removeEntry(op, name);
  }

  /** Resolves when nothing is being removed in the background. */
  async settled(): Promise<void> {
    while (this.#tidying.size > 0) await Promise.all(this.#tidying);
  }

  async #alone<T>(diffId: string, fn: () => Promise<T>): Promise<T> {
    const running = fn();
    this.#busy.set(diffId, running);
    try {
      return await running;
    } finally {
      this.#busy.delete(diffId);
    }
  }

  async #make(
    op: Op,
    source: LayerJob['source'],
    expected: string | undefined,
    onProgress: ((bytes: number) => void) | undefined,
  ): Promise<LayerResult> {
    const staging = `${STAGING_PREFIX}${randomBytes(8).toString('hex')}`;
    const { durable = true } = this.#deps;
    const job: LayerJob = { source, layers: this.#directory, staging, limits: this.#limits, durable, expected };
    let placed = false;
    this.#working.add(staging);
    try {
      const result = await this.#deps.thread.run(op, 'layer', job, onProgress);
      ({ placed } = result);
      const { marker } = result;
      if (marker.skippedXattrs.length > 0) {
        const fields = { diffId: marker.diffId, xattrs: marker.skippedXattrs };
        op.log.warn(fields, 'a layer has extended attributes that can not be kept');
      }
      if (placed) this.#layers.set(marker.diffId, marker);
      // Not placed: the same content was unpacked meanwhile (by adoptRootfs, which knows its diffId only at the end).
      return resultOf(this.marker(marker.diffId));
    } finally {
      // Never with the caller's op: a caller that gave up leaves the most behind.
      if (!placed) await this.#tidy('a staged layer', (own) => this.#removeEntry(own, staging));
      this.#working.delete(staging);
    }
  }

  async #removeNow(op: Op, diffId: string): Promise<void> {
    await this.#alone(diffId, async () => {
      this.#layers.delete(diffId);
      const aside = await this.#setAside(layerName(diffId));
      await this.#faults.reach('remove-image/layer-aside');
      if (aside !== undefined) await this.#removeEntry(op, aside);
    });
  }

  /** The layer's name is free at once and for good; what is left has a name that the next start removes. */
  async #setAside(name: string): Promise<string | undefined> {
    const aside = `${REMOVED_PREFIX}${randomBytes(8).toString('hex')}`;
    try {
      await rename(join(this.#directory, name), join(this.#directory, aside));
      return aside;
    } catch (error) {
      const failure = fromNodeError(error, `layer ${name}`);
      if (isKind(failure, 'NotFound')) return undefined;
      throw failure;
    }
  }

  async #removeEntry(op: Op, name: string): Promise<void> {
    this.#working.add(name);
    try {
      await removeTree(this.#deps.remover, op, this.#directory, join(this.#directory, name));
    } finally {
      this.#working.delete(name);
    }
  }

  #later(what: string, fn: (op: Op) => Promise<void>): void {
    const tidying = this.#tidy(what, fn).finally(() => this.#tidying.delete(tidying));
    this.#tidying.add(tidying);
  }

  async #tidy(what: string, fn: (op: Op) => Promise<void>): Promise<void> {
    const { log, clock } = this.#deps;
    try {
      await detached(log, clock, TIDY_MS, `remove ${what}`, fn);
    } catch (error) {
      log.warn(
        { what, errKind: kindOf(error), error: messageOf(error) },
        'could not be removed; the next start tries again',
      );
    }
  }

  async #scan(op: Op): Promise<void> {
    // Layers hold set-uid programs: nobody but root may walk in from the host.
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    await chmod(this.#directory, 0o700);
    await mkdir(this.emptyDirectory, { recursive: true, mode: 0o755 });
    const names = await readdir(this.#directory);
    await Promise.all(
      names.map(async (name) => {
        if (isStaged(name)) {
          this.#later(name, (own) => this.#removeEntry(own, name));
        } else if (LAYER_NAME.test(name)) {
          await this.#adoptFound(op, name);
        }
      }),
    );
  }

  async #adoptFound(op: Op, name: string): Promise<void> {
    const marker = await readMarker(join(this.#directory, name));
    if (marker !== undefined && layerName(marker.diffId) === name) {
      this.#layers.set(marker.diffId, marker);
      return;
    }
    // Not removed: it may be a newer Gantry's. An unpack of the same layer sets it aside.
    op.log.warn({ layer: name }, 'a layer without a readable marker is not used');
  }
}

function isStaged(name: string): boolean {
  return name.startsWith(STAGING_PREFIX) || name.startsWith(REMOVED_PREFIX);
}

function resultOf({ diffId, bytes, entries }: LayerMarker): LayerResult {
  return { diffId, sizeBytes: bytes, inodes: entries };
}
