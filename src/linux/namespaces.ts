import { unlink } from 'node:fs/promises';
import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { errnoOf, invalidArgument, isKind } from '../lib/errors.ts';
import { NO_FAULTS, type FaultPoints } from '../lib/fault-points.ts';
import { workerUrl } from '../lib/worker-url.ts';
import { fromNodeError } from './errno.ts';
import type { IdMappings } from './id-mappings.ts';
import { UMOUNT } from './kernel-constants.ts';
import { PeerPool, threadPeer } from './peer-pool.ts';
import { podSysctl } from './sysctl-name.ts';
import { UserNamespaceHolder } from './user-namespace.ts';
import { realSyscalls, type Syscalls } from './syscalls.ts';

/** New namespaces, and the files that each is to be pinned on. */
export interface PinRequest {
  readonly net?: string;
  readonly ipc?: string;
  readonly uts?: string;
  /** One that the others belong to. */
  readonly user?: { readonly path: string; readonly mappings: IdMappings };
  /** Of the new UTS namespace. */
  readonly hostname?: string;
  /** `net.*` for a new net, `kernel.shm*`, `kernel.msg*`, `kernel.sem`, `fs.mqueue.*` for a new ipc namespace. */
  readonly sysctls?: Readonly<Record<string, string>>;
}

export type PinnedKind = 'net' | 'ipc' | 'uts';

export interface PinnedNamespaces {
  /** With the boot id, what proves later that the pin is still the same namespace. */
  readonly inodes: Readonly<Partial<Record<PinnedKind | 'user', number>>>;
}

/** What the thread is asked: the request with its sysctls as files. */
export interface PinThreadRequest {
  readonly pins: readonly { readonly kind: PinnedKind; readonly path: string }[];
  readonly hostname?: string;
  readonly sysctls: readonly { readonly name: string; readonly file: string; readonly value: string }[];
  /** Whose namespaces they are, and where its user namespace is to be pinned; absent: the thread makes them. */
  readonly holder?: { readonly pid: number; readonly userPath: string };
}

/** What the thread is asked to read: the interfaces' counters, inside a network namespace that is bound there. */
export interface CountersThreadRequest {
  readonly netns: string;
}

const IDLE_MS = 30_000;
const MAX_HUNG = 4;
const MAX_HOSTNAME_BYTES = 64;
const STACKED_PINS_MAX = 8;

/** Namespaces that live without a process, held by bind mounts of their /proc entries. */
export class Namespaces {
  readonly #pool: PeerPool;
  readonly #syscalls: Pick<Syscalls, 'umount2'>;
  readonly #faults: FaultPoints;
  readonly #clock: Clock;

  constructor({
    clock,
    syscalls = realSyscalls(),
    faults = NO_FAULTS,
  }: {
    readonly clock: Clock;
    readonly syscalls?: Pick<Syscalls, 'umount2'>;
    readonly faults?: FaultPoints;
  }) {
    this.#syscalls = syscalls;
    this.#faults = faults;
    this.#clock = clock;
    this.#pool = new PeerPool({
      clock,
      what: 'the namespace thread',
      // unshare(2) moves one thread only, so a thread of its own enters the new namespaces and comes back.
      start: threadPeer(workerUrl(import.meta.url, './namespaces-worker'), 'namespaces', faults),
      idleMs: IDLE_MS,
      maxPeers: 1,
      callsPerPeer: Number.MAX_SAFE_INTEGER,
      onGivenUp: 'leave',
      maxHung: MAX_HUNG,
      describe: (request: PinThreadRequest | CountersThreadRequest) =>
        'netns' in request
          ? `reading the counters of ${request.netns}`
          : `pinning ${request.pins.map(({ path }) => path).join(', ')}`,
    });
  }

  /**
   * Makes the namespaces asked for and pins each on its file, which must not exist yet (AlreadyExists). The loopback
   * interface is up inside. Either all are pinned or none. InvalidArgument for a sysctl that would not be the pod's own.
   */
  async pinNamespaces(op: Op, request: PinRequest): Promise<PinnedNamespaces> {
    if (request.hostname !== undefined && Buffer.byteLength(request.hostname) > MAX_HOSTNAME_BYTES) {
      throw invalidArgument(`hostname ${request.hostname} is longer than ${String(MAX_HOSTNAME_BYTES)} bytes`);
    }
    const pins = (['net', 'ipc', 'uts'] as const).flatMap((kind) => {
      const path = request[kind];
      return path === undefined ? [] : [{ kind, path }];
    });
    const sysctls = Object.entries(request.sysctls ?? {}).map(([name, value]) => ({
      name,
      value,
      file: sysctlFile(name, request),
    }));
    const thread: PinThreadRequest = {
      pins,
      sysctls,
      ...(request.hostname === undefined ? {} : { hostname: request.hostname }),
    };
    const { user } = request;
    if (user === undefined) return (await this.#pool.call(op, thread)) as PinnedNamespaces;
    const pinned = await this.#pinHeld(op, thread, user);
    await this.#faults.reach('hold-namespaces/ended');
    return pinned;
  }

  async #pinHeld(op: Op, thread: PinThreadRequest, user: NonNullable<PinRequest['user']>): Promise<PinnedNamespaces> {
    const kinds = thread.pins.map(({ kind }) => kind);
    const deps = { clock: this.#clock, faults: this.#faults };
    await using holder = await UserNamespaceHolder.make(op, deps, user.mappings, kinds);
    const held = { ...thread, holder: { pid: holder.pid, userPath: user.path } };
    return (await this.#pool.call(op, held)) as PinnedNamespaces;
  }

  /** Lets go of a pin and its file; what is gone already is fine. The namespace itself lives on while a process is in it. */
  async unpin(op: Op, path: string): Promise<void> {
    for (let rest = STACKED_PINS_MAX; rest > 0; rest--) {
      op.signal.throwIfAborted();
      try {
        await this.#syscalls.umount2(path, UMOUNT.DETACH | UMOUNT.NOFOLLOW);
      } catch (error) {
        // EINVAL: no (further) mount there.
        if (errnoOf(error) === 'EINVAL' || isKind(error, 'NotFound')) break;
        throw error;
      }
    }
    await this.#faults.reach('unpin/unmounted');
    try {
      await unlink(path);
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT') throw fromNodeError(error, `remove namespace pin ${path}`);
    }
  }

  /** The text of /proc/net/dev inside a pinned network namespace. NotFound when there is no such file. */
  async interfaceCounters(op: Op, netns: string): Promise<string> {
    const request: CountersThreadRequest = { netns };
    return (await this.#pool.call(op, request)) as string;
  }

  close(): void {
    this.#pool.close();
  }
}

/** The file of a sysctl that belongs to one of the namespaces asked for. */
export function sysctlFile(name: string, pins: Pick<PinRequest, 'net' | 'ipc'>): string {
  const { namespace, path } = podSysctl(name);
  if (pins[namespace] === undefined) {
    throw invalidArgument(`sysctl ${name}: the pod uses the host's ${namespace === 'net' ? 'network' : 'IPC'}`);
  }
  return `/proc/sys/${path}`;
}
