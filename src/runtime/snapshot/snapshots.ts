import { randomBytes } from 'node:crypto';
import { chmod, chown, mkdir, readdir, rename, rmdir, stat, unlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { detached, type Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import {
  alreadyExists,
  failedPrecondition,
  invalidArgument,
  isKind,
  kindOf,
  messageOf,
  notFound,
} from '../../lib/errors.ts';
import { NO_FAULTS, type FaultPoints } from '../../lib/fault-points.ts';
import type { Log } from '../../lib/log.ts';
import { fromNodeError } from '../../linux/errno.ts';
import { hostIdOf, type IdMappings } from '../../linux/id-mappings.ts';
import { readMountinfo, type MountInfo } from '../../linux/mountinfo.ts';
import type { OverlayRequest, UnmountOutcome } from '../../linux/mounts.ts';
import { bootId } from '../../linux/procfs.ts';
import type { RuntimePaths } from '../store/paths.ts';
import type { LayerDirectory } from './layer-directory.ts';
import { lowerStack, type LowerStack } from './lower-stack.ts';
import { readRecord, RECORD_NAME, type SnapshotRecord } from './snapshot-record.ts';
import { snapshotOfMount } from './snapshot-mount.ts';
import { namesOf, takeOff } from './take-off.ts';
import { removeTree, type TreeRemover } from './tree-remover.ts';
import type { TreeUsage } from './worker/protocol.ts';
import type { SnapshotThread } from './worker/snapshot-thread.ts';

/** What this room needs of linux/mounts. */
export interface SnapshotMounts {
  overlay(op: Op, request: OverlayRequest): Promise<void>;
  unmount(op: Op, target: string, options?: { readonly detach?: boolean }): Promise<UnmountOutcome>;
}

export interface SnapshotsDeps {
  readonly paths: Pick<RuntimePaths, 'snapshots'>;
  readonly layers: LayerDirectory;
  readonly mounts: SnapshotMounts;
  readonly remover: TreeRemover;
  /** Shared with the unpacking of layers. */
  readonly thread: SnapshotThread;
  /** For what a container's creation waits for: a layer that is unpacked ends with a sync of the whole disk, which stops its thread. */
  readonly createThread: SnapshotThread;
  /** For what is asked often and must neither wait for an unpacking nor hold one up. Default: the shared one. */
  readonly usageThread?: SnapshotThread;
  readonly clock: Clock;
  readonly log: Log;
  /** A root file system was taken off while somebody used it: who, in words. It is gone when they let go of it. */
  readonly onDetached?: (target: string, users: string) => void;
  /** See {@link Snapshots}. Default: true. */
  readonly volatile?: boolean;
  readonly faults?: FaultPoints;
}

const ID = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;
const STAGING_PREFIX = '.staging-';
const TIDY_MS = 120_000;
/** overlayfs leaves this behind in a work directory whose mount was volatile. */
const VOLATILE_MARK = 'work/work/incompat/volatile';

/**
 * The root filesystems of containers: an overlay of an image's layers with a writable directory on top, in
 * `<root>/snapshots/<id>/{upper,work,snapshot.json}`. Pure verbs, each of which can be repeated after a crash; the
 * caller's ledger says which of them are owed.
 *
 * Mounts are `volatile`: taking a container's root filesystem down then does not first write all of the disk's dirty
 * pages (140 ms on an idle disk, any time on a busy one), and nothing is lost by it, since no container outlives the
 * boot that its mount was made in. A snapshot whose volatile mount ended with the machine is not mounted again: its
 * files may be torn.
 */
export class Snapshots {
  readonly #deps: SnapshotsDeps;
  readonly #directory: string;
  readonly #volatile: boolean;
  readonly #faults: FaultPoints;
  /** Staged ones that are being worked on: the others are left-overs. */
  readonly #working = new Set<string>();
  #boot: Promise<string> | undefined;

  private constructor(deps: SnapshotsDeps) {
    this.#deps = deps;
    this.#directory = deps.paths.snapshots;
    this.#volatile = deps.volatile ?? true;
    this.#faults = deps.faults ?? NO_FAULTS;
  }

  /** Finds the snapshots that exist, so that their layers are held, and removes half-made ones. */
  static async open(deps: SnapshotsDeps): Promise<Snapshots> {
    const snapshots = new Snapshots(deps);
    await snapshots.#scan();
    return snapshots;
  }

  /** Ids of all snapshots on the disk, whole or partly removed. For finding orphans. */
  async list(): Promise<string[]> {
    return (await readdir(this.#directory)).filter((name) => ID.test(name));
  }

  /** Paths of half-made snapshots that nobody is at work on. */
  async strays(): Promise<string[]> {
    const names = (await readdir(this.#directory)).filter((name) => name.startsWith(STAGING_PREFIX));
    return names.map((name) => join(this.#directory, name)).filter((path) => !this.#working.has(path));
  }

  /** Removes what {@link strays} found. @throws InvalidArgument for anything else, Unavailable naming what blocks it. */
  async removeStray(op: Op, path: string): Promise<void> {
    if (dirname(path) !== this.#directory || !basename(path).startsWith(STAGING_PREFIX))
      throw invalidArgument(`${path} is no staged snapshot`);
    if (!this.#working.has(path)) await removeTree(this.#deps.remover, op, this.#directory, path);
  }

  /**
   * Makes the directories of a snapshot over the layers (bottom first; none for an empty image). Doing it again with the
   * same layers changes nothing.
   * @throws NotFound for a layer that is not there, AlreadyExists for an id with other layers.
   */
  async prepare(op: Op, id: string, diffIds: readonly string[], idMappings?: IdMappings): Promise<void> {
    const directory = this.#directoryOf(id);
    op.signal.throwIfAborted();
    const record = await readRecord(directory);
    if (record !== undefined) {
      if (sameLayers(record, diffIds)) return;
      throw alreadyExists(`snapshot ${id} exists already, with other layers`);
    }
    const stack = this.#stackOf(diffIds);
    this.#deps.layers.hold(id, diffIds);
    const staging = join(this.#directory, `${STAGING_PREFIX}${randomBytes(8).toString('hex')}`);
    this.#working.add(staging);
    try {
      await this.#make(
        op,
        staging,
        stack,
        {
          version: 1,
          diffIds: [...diffIds],
          bootId: await this.#bootId(),
        },
        idMappings,
      );
      await this.#faults.reach('make-snapshot/staged');
      await rename(staging, directory);
      await this.#faults.reach('make-snapshot/placed');
    } catch (error) {
      this.#deps.layers.release(id);
      await this.#tidy(staging);
      const failure = fromNodeError(error, `snapshot ${id}`);
      throw failure.details['errno'] === 'ENOTEMPTY' ? alreadyExists(`snapshot ${id} exists already`) : failure;
    } finally {
      this.#working.delete(staging);
    }
  }

  /**
   * Mounts the snapshot on an existing directory, `readOnly` without a way to write at all. Mounted there already is a success.
   * @throws NotFound for a missing snapshot, layer or target, FailedPrecondition when it is mounted elsewhere or when
   * the machine went down under it.
   */
  async mount(
    op: Op,
    id: string,
    target: string,
    { readOnly = false, userNamespace }: { readonly readOnly?: boolean; readonly userNamespace?: string } = {},
  ): Promise<void> {
    const directory = this.#directoryOf(id);
    const record = await readRecord(directory);
    if (record === undefined) throw notFound(`snapshot ${id} does not exist`);
    const stack = this.#stackOf(record.diffIds);
    const mounted = await this.#mountedAt(directory);
    if (mounted.some((mount) => mount.mountPoint === target)) return;
    const elsewhere = mounted[0];
    // Two overlays over one upper directory corrupt each other.
    if (elsewhere !== undefined) throw failedPrecondition(`snapshot ${id} is mounted on ${elsewhere.mountPoint}`);
    const mapped = userNamespace === undefined ? {} : { userNamespace };
    if (readOnly) {
      await this.#deps.mounts.overlay(op, { ...this.#readOnlyRequest(directory, stack, target), ...mapped });
      return;
    }
    await this.#forgetVolatile(id, directory, record);
    await this.#deps.mounts.overlay(op, { ...this.#request(directory, stack, target), ...mapped });
  }

  /**
   * Takes a snapshot off its target, also from under those who are in it, once its container has ended. Not mounted is a success.
   * @throws Unavailable when something is mounted inside.
   */
  async unmount(op: Op, target: string): Promise<void> {
    const users = await takeOff(op, this.#deps, target);
    if (users !== undefined) this.#deps.onDetached?.(target, namesOf(users));
  }

  /**
   * Removes the snapshot's directories and lets go of its layers. Gone is a success.
   * @throws FailedPrecondition while it is mounted, Unavailable naming what else is in the way; it can be repeated.
   */
  async remove(op: Op, id: string): Promise<void> {
    const directory = this.#directoryOf(id);
    const mounted = (await this.#mountedAt(directory))[0];
    if (mounted !== undefined) throw failedPrecondition(`snapshot ${id} is still mounted on ${mounted.mountPoint}`);
    await removeTree(this.#deps.remover, op, this.#directory, directory);
    this.#deps.layers.release(id);
  }

  /**
   * What the container has changed in its image, as an OCI layer in a new file; it may go on changing it. Owners are those of the
   * host, also where ids are mapped. @throws NotFound, NotImplemented
   */
  async saveChanges(op: Op, id: string, file: string): Promise<void> {
    const directory = join(this.#directoryOf(id), 'upper');
    await this.#deps.thread.run(op, 'archive', { what: 'changes', directory, file });
  }

  /** A folder that nobody writes into, as an archive in a new file. */
  async pack(op: Op, directory: string, file: string): Promise<void> {
    await this.#deps.thread.run(op, 'archive', { what: 'directory', directory, file });
  }

  /** What the container has written. @throws NotFound */
  async usage(op: Op, id: string): Promise<TreeUsage> {
    const directory = this.#directoryOf(id);
    await stat(directory).catch(() => {
      throw notFound(`snapshot ${id} does not exist`);
    });
    const { thread, usageThread = thread } = this.#deps;
    return await usageThread.run(op, 'usage', { directory: join(directory, 'upper') });
  }

  #directoryOf(id: string): string {
    if (!ID.test(id)) throw invalidArgument(`${JSON.stringify(id.slice(0, 150))} is no snapshot id`);
    return join(this.#directory, id);
  }

  #stackOf(diffIds: readonly string[]): LowerStack {
    return lowerStack(diffIds.map((diffId) => this.#deps.layers.marker(diffId)));
  }

  async #make(
    op: Op,
    staging: string,
    stack: LowerStack,
    record: SnapshotRecord,
    idMappings: IdMappings = { uids: [], gids: [] },
  ): Promise<void> {
    await mkdir(staging, { mode: 0o700 });
    await this.#faults.reach('make-snapshot/folder-made');
    const upper = join(staging, 'upper');
    await mkdir(upper);
    // The upper directory's root is the one that is seen.
    await chown(upper, hostIdOf(idMappings.uids, stack.root.uid), hostIdOf(idMappings.gids, stack.root.gid));
    await chmod(upper, stack.root.mode);
    await mkdir(join(staging, 'work'), { mode: 0o700 });
    if (stack.hasImplied && stack.diffIds.length > 1) await this.#repairImplied(op, upper, stack, idMappings);
    await writeFile(join(staging, RECORD_NAME), `${JSON.stringify(record)}\n`, { mode: 0o600 });
  }

  async #repairImplied(op: Op, upper: string, stack: LowerStack, idMappings: IdMappings): Promise<void> {
    const { layers, createThread } = this.#deps;
    await createThread.run(op, 'repair-implied', {
      upper,
      idMappings,
      layers: stack.diffIds.map((diffId) => ({
        files: layers.filesOf(diffId),
        implied: layers.marker(diffId).impliedDirectories,
      })),
    });
  }

  #request(directory: string, stack: LowerStack, target: string): OverlayRequest {
    const lowerDirs = this.#lowerDirs(stack);
    return {
      lowerDirs: lowerDirs.length === 0 ? [this.#deps.layers.emptyDirectory] : lowerDirs,
      upperDir: join(directory, 'upper'),
      workDir: join(directory, 'work'),
      target,
      options: this.#volatile ? ['volatile'] : [],
    };
  }

  /** The upper directory is the uppermost of the lower ones: it has the root's attributes, and those that no layer describes. */
  #readOnlyRequest(directory: string, stack: LowerStack, target: string): OverlayRequest {
    return { lowerDirs: [join(directory, 'upper'), ...this.#lowerDirs(stack)], target };
  }

  #lowerDirs(stack: LowerStack): string[] {
    return stack.diffIds.map((diffId) => this.#deps.layers.filesOf(diffId));
  }

  async #mountedAt(directory: string): Promise<MountInfo[]> {
    return (await readMountinfo()).filter((mount) => snapshotOfMount(mount) === directory);
  }

  /** The kernel's mark of a volatile mount may go as long as this boot lasts: the page cache still has all of it. */
  async #forgetVolatile(id: string, directory: string, record: SnapshotRecord): Promise<void> {
    const mark = join(directory, VOLATILE_MARK);
    const marked = await stat(mark).then(
      () => true,
      () => false,
    );
    if (!marked) return;
    if (record.bootId !== (await this.#bootId())) {
      throw failedPrecondition(`snapshot ${id} was mounted when the machine went down: its files may be torn`);
    }
    await unlink(join(mark, 'dirty')).catch(() => undefined);
    await rmdir(mark).catch((error: unknown) => {
      throw fromNodeError(error, `snapshot ${id}`);
    });
  }

  #bootId(): Promise<string> {
    this.#boot ??= bootId();
    return this.#boot;
  }

  async #tidy(path: string): Promise<void> {
    const { log, clock, remover } = this.#deps;
    try {
      await detached(log, clock, TIDY_MS, `remove ${path}`, (op) => removeTree(remover, op, this.#directory, path));
    } catch (error) {
      if (isKind(error, 'NotFound')) return;
      log.warn(
        { path, errKind: kindOf(error), error: messageOf(error) },
        'could not be removed; the next start tries again',
      );
    }
  }

  async #scan(): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    await chmod(this.#directory, 0o700);
    await Promise.all(
      (await readdir(this.#directory)).map(async (name) => {
        // A half-made snapshot is a few empty directories.
        if (name.startsWith(STAGING_PREFIX)) await this.#tidy(join(this.#directory, name));
        else if (ID.test(name)) await this.#holdFound(name);
      }),
    );
  }

  async #holdFound(id: string): Promise<void> {
    const { layers, log } = this.#deps;
    const record = await readRecord(join(this.#directory, id));
    const present = record?.diffIds.filter((diffId) => layers.has(diffId)) ?? [];
    layers.hold(id, present);
    if (record === undefined || present.length < record.diffIds.length) {
      log.warn({ snapshot: id }, 'a snapshot has no readable record or not all of its layers: it can only be removed');
    }
  }
}

function sameLayers(record: SnapshotRecord, diffIds: readonly string[]): boolean {
  return record.diffIds.length === diffIds.length && record.diffIds.every((diffId, i) => diffId === diffIds[i]);
}
