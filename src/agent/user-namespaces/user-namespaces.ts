import { readFile } from 'node:fs/promises';
import { writeFileAtomic } from '../../lib/atomic-file.ts';
import { errnoOf } from '../../lib/errors.ts';
import { unlinkIfThere } from '../../lib/may-be-gone.ts';
import type { HostIds } from '../../linux/host-ids.ts';
import type { IdMapping } from '../../linux/id-mappings.ts';
import type { PodPaths } from '../pods/paths.ts';
import { listPodDirectories } from '../volumes/pod-directory.ts';
import { chooseIdBlock, IDS_PER_POD } from './id-block.ts';

export interface UserNamespacesDeps {
  readonly paths: PodPaths;
  /** Asked for each new pod: the administrator may have given ids, or taken some, since. */
  readonly hostIds: () => Promise<HostIds>;
}

/**
 * Which ids of the host the users and groups of each pod are. What a pod has been given is in its directory, written through before anybody
 * uses it, so that a new agent gives the same to it and to nobody else; it goes with the directory, when nothing of the pod runs any more.
 */
export class UserNamespaces {
  readonly #deps: UserNamespacesDeps;
  readonly #blocks = new Map<string, number>();
  #loading: Promise<void> | undefined;

  constructor(deps: UserNamespacesDeps) {
    this.#deps = deps;
  }

  /** For users and for groups alike. The pod's directory is there. Throws as {@link chooseIdBlock} does, and when it cannot be written down. */
  async of(podUid: string): Promise<IdMapping> {
    this.#loading ??= this.#load().catch((error: unknown) => {
      this.#loading = undefined;
      throw error;
    });
    await this.#loading;
    return mappingFrom(this.#blocks.get(podUid) ?? (await this.#give(podUid)));
  }

  /** Nothing of the pod runs any more. */
  async release(podUid: string): Promise<void> {
    if (!this.#blocks.has(podUid)) return;
    await unlinkIfThere(this.#deps.paths.userNamespace(podUid));
    this.#blocks.delete(podUid);
  }

  async #give(podUid: string): Promise<number> {
    const host = await this.#deps.hostIds();
    const block = chooseIdBlock(podUid, host, new Set(this.#blocks.values()));
    // At once: another pod's search may come before it is written down.
    this.#blocks.set(podUid, block);
    const mappings = [mappingFrom(block)];
    try {
      const text = JSON.stringify({ uidMappings: mappings, gidMappings: mappings });
      await writeFileAtomic(this.#deps.paths.userNamespace(podUid), text);
    } catch (error) {
      this.#blocks.delete(podUid);
      throw error;
    }
    return block;
  }

  async #load(): Promise<void> {
    const { paths } = this.#deps;
    const uids = await listPodDirectories(paths);
    await Promise.all(
      uids.map(async (uid) => {
        const block = await readBlock(paths.userNamespace(uid));
        if (block !== undefined) this.#blocks.set(uid, block);
      }),
    );
  }
}

function mappingFrom(hostId: number): IdMapping {
  return { containerId: 0, hostId, length: IDS_PER_POD };
}

/** Undefined where there is none, or what there is was torn by a power cut: then nothing of the pod runs. */
async function readBlock(path: string): Promise<number | undefined> {
  try {
    const { uidMappings } = JSON.parse(await readFile(path, 'utf8')) as { uidMappings?: readonly IdMapping[] };
    const hostId = uidMappings?.[0]?.hostId;
    return Number.isSafeInteger(hostId) ? hostId : undefined;
  } catch (error) {
    if (error instanceof SyntaxError || ['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return undefined;
    throw error;
  }
}
