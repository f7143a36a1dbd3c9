import { readFile, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { errnoOf, internal, messageOf } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import { namesIn, unlinkIfThere } from '../../lib/may-be-gone.ts';
import { lockFile } from '../../linux/file-lock.ts';
import { isObject, type NetworkConfig } from './network-config.ts';

/** An address that host-local has given out: a file with the address as its name. */
export interface Reservation {
  readonly path: string;
  /** As CNI was told: of a sandbox. */
  readonly id: string;
}

/** An address file; beside them host-local keeps its lock and the last address that it gave. */
const ADDRESS = /^[0-9a-f.:]+$/;

const SANDBOX_ID = /^[0-9a-f]{64}$/;

/** Where host-local keeps a network's addresses unless it is told otherwise. */
export const DEFAULT_DATA_DIR = '/var/lib/cni/networks';

/**
 * "Done" from a plug-in proves nothing: an address that stays reserved for this id is one less for others, for ever.
 * Looks where the network has its addresses from host-local. What a power cut has left of a reservation of these addresses is taken
 * away: it names nobody, so DEL does not. Throws Internal, naming what is left.
 */
export async function mustBeFree(network: NetworkConfig, addresses: readonly string[], id: string): Promise<void> {
  for (const dataDir of dataDirsOf(network)) await giveBackTorn(join(dataDir, network.name), addresses);
  const left = [...(await holdersOf(network, addresses))].flatMap(([address, ids]) => (ids.has(id) ? [address] : []));
  if (left.length === 0) return;
  throw internal(`network ${network.name} said that DEL succeeded, but ${left.join(', ')} is still reserved for ${id}`);
}

/** Those of the addresses that host-local has given to another than `id`, and not to it. */
export async function takenFrom(
  id: string,
  network: NetworkConfig,
  addresses: readonly string[],
): Promise<ReadonlySet<string>> {
  const holders = [...(await holdersOf(network, addresses))];
  return new Set(holders.flatMap(([address, ids]) => (ids.size > 0 && !ids.has(id) ? [address] : [])));
}

/** Whom host-local has given each address to, wherever the network has addresses from it. */
async function holdersOf(
  network: NetworkConfig,
  addresses: readonly string[],
): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const holders = new Map(
    addresses.filter((text) => ADDRESS.test(text)).map((address) => [address, new Set<string>()]),
  );
  for (const dataDir of dataDirsOf(network)) {
    for (const [address, ids] of holders) {
      const id = await reservedFor(join(dataDir, network.name, address));
      if (id !== undefined) ids.add(id);
    }
  }
  return holders;
}

/** Where a network has its addresses from host-local: each has a folder of the network's name. */
export function dataDirsOf({ plugins }: NetworkConfig): string[] {
  const dirs = plugins.flatMap(({ ipam }) => {
    if (!isObject(ipam) || ipam['type'] !== 'host-local') return [];
    const { dataDir } = ipam;
    return [typeof dataDir === 'string' && dataDir !== '' ? dataDir : DEFAULT_DATA_DIR];
  });
  return [...new Set(dirs)];
}

/** Of one network, by its folder. None when it is not there. */
export async function reservationsIn(folder: string): Promise<Reservation[]> {
  const found: Reservation[] = [];
  for (const name of await namesIn(folder)) {
    if (!ADDRESS.test(name)) continue;
    const path = join(folder, name);
    const id = await reservedFor(path);
    if (id !== undefined) found.push({ path, id });
  }
  return found;
}

/** Under host-local's own lock: the plug-in may be giving it out anew at this moment. Another's by then: left alone. */
export async function giveBack({ path, id }: Reservation): Promise<void> {
  const lock = await lockFile(join(dirname(path), 'lock'));
  try {
    if ((await reservedFor(path)) === id) await unlink(path);
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
  } finally {
    await lock.release();
  }
}

/**
 * Gives back the addresses of a network whose sandbox nobody knows any more (of one whose record and ledger were lost, DEL is never called),
 * and those whose reservations name nobody. For a network that is ours alone.
 * `isKnown` is asked when the reservation has been read: a sandbox is known before it has an address, and until it has none.
 */
export async function giveBackStrays(log: Log, folder: string, isKnown: (sandboxId: string) => boolean): Promise<void> {
  for (const found of await reservationsIn(folder)) {
    if (!SANDBOX_ID.test(found.id) || isKnown(found.id)) continue;
    try {
      await giveBack(found);
      log.info({ ...found }, 'an address without an owner was given back');
    } catch (error) {
      log.warn({ ...found, error: messageOf(error) }, 'an address without an owner could not be given back');
    }
  }
  try {
    const torn = await giveBackTorn(folder, await namesIn(folder));
    if (torn.length > 0) log.info({ folder, torn }, 'addresses whose reservations name nobody were given back');
  } catch (error) {
    log.warn({ folder, error: messageOf(error) }, 'addresses whose reservations name nobody could not be given back');
  }
}

/**
 * host-local does not force what it writes onto the disk: after a power cut, or a disk that was full, there can be a file without a word in it, whose address
 * nobody has and nobody gets ever again. Under host-local's own lock, so none of these is being written at this moment.
 */
async function giveBackTorn(folder: string, names: readonly string[]): Promise<string[]> {
  const suspects = await tornOf(folder, names);
  if (suspects.length === 0) return [];
  const lock = await lockFile(join(folder, 'lock'));
  try {
    const torn = await tornOf(folder, suspects);
    for (const address of torn) await unlinkIfThere(join(folder, address));
    return torn;
  } finally {
    await lock.release();
  }
}

/** The addresses among the names whose files are empty. */
async function tornOf(folder: string, names: readonly string[]): Promise<string[]> {
  const torn: string[] = [];
  for (const address of names.filter((name) => ADDRESS.test(name))) {
    const text = await readFile(join(folder, address), 'utf8').catch(() => 'unreadable');
    if (text.trim() === '') torn.push(address);
  }
  return torn;
}

/** The id that host-local has written there; undefined when it is no reservation (any more). */
async function reservedFor(path: string): Promise<string | undefined> {
  const text = await readFile(path, 'utf8').catch(() => '');
  return text.split(/[\r\n]/)[0]?.trim() || undefined;
}
