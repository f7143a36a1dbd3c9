import { closeSync } from 'node:fs';
import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { workerUrl } from '../lib/worker-url.ts';
import type { OverlayRequest } from './overlay-settings.ts';
import { PeerPool, threadPeer } from './peer-pool.ts';
import { UserNamespaceHolder } from './user-namespace.ts';

/** An overlay that is attached nowhere yet, and a file of the user namespace whose ids its lower directories' files are to have. */
export type MappedOverlayRequest = Omit<OverlayRequest, 'target'> & { readonly userNamespace: string };

const IDLE_MS = 30_000;

/**
 * Makes overlays whose lower directories have other owners. Before Linux 6.15 an overlay takes such a copy of a mount only where it is attached
 * in the caller's mount namespace. A thread therefore makes a namespace of its own for a moment, attaches the copies there and comes
 * back: nobody else sees them, and nothing is left of them when we are killed.
 */
export class MappedOverlays {
  readonly #pool: PeerPool;

  constructor({ clock }: { readonly clock: Clock }) {
    this.#pool = new PeerPool({
      clock,
      what: 'the thread for mapped overlays',
      start: threadPeer(workerUrl(import.meta.url, './mapped-overlay-worker'), 'mapped-overlay'),
      idleMs: IDLE_MS,
      maxPeers: 1,
      callsPerPeer: Number.MAX_SAFE_INTEGER,
      onGivenUp: 'leave',
      maxHung: 1,
      describe: ({ lowerDirs }: MappedOverlayRequest) => `mapping ${lowerDirs.join(', ')}`,
    });
  }

  /** The descriptor of a detached mount, for the caller to close. It waits for the disk, whatever the op's signal says: else nobody would. */
  async make({ log }: Op, request: MappedOverlayRequest): Promise<number> {
    return (await this.#pool.call({ log, signal: new AbortController().signal }, request)) as number;
  }

  close(): void {
    this.#pool.close();
  }
}

/**
 * Whether this kernel has such overlays, and the file system of `folder` can be mapped. Found out by making one; it is attached nowhere. `other` is
 * a folder beside it, because an overlay without a writable layer has two at least.
 */
export async function canIdMapLayers(
  op: Op,
  clock: Clock,
  { folder, other }: { readonly folder: string; readonly other: string },
): Promise<boolean> {
  const range = [{ containerId: 0, hostId: 65_536, length: 65_536 }];
  const overlays = new MappedOverlays({ clock });
  try {
    await using holder = await UserNamespaceHolder.make(op, { clock }, { uids: range, gids: range }, []);
    const userNamespace = `/proc/${String(holder.pid)}/ns/user`;
    closeSync(await overlays.make(op, { lowerDirs: [folder, other], userNamespace }));
    return true;
  } catch (error) {
    op.log.debug({ error: String(error) }, 'no user namespaces: layers cannot be mapped');
    return false;
  } finally {
    overlays.close();
  }
}
