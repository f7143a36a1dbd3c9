import { readFile, rmdir } from 'node:fs/promises';
import { dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { failedPrecondition, isKind, joinErrors, withContext } from '../lib/errors.ts';
import { makeFolders } from '../lib/make-folders.ts';
import { mustBeUnserved, unixSocketPath } from '../lib/unix-socket.ts';
import { lockFile, type FileLock } from '../linux/file-lock.ts';
import { flagOf, type ConfigKey, type GantryConfig } from './config.ts';

/**
 * For what is no folder: the instance id and the cgroup parent. Below /run, as what they name does not outlive a boot either, and not
 * in /run/lock, where everybody may put a file before us.
 */
export const CLAIMS_FOLDER = '/run/gantry-locks';
/** Hidden: all else in the folder of pods is a pod's. */
const LOCK = '.gantryd.lock';

/** Something that one Gantry has to itself: another's recovery would take what is in it for leftovers, and end it. */
interface Claim {
  readonly key: ConfigKey;
  readonly value: string;
  /** The file that is locked, and that says whose it is. */
  readonly path: string;
  /** What outlives the daemon and is still its own: until the next boot, or on a disk. A socket is free once nobody serves on it. */
  readonly lasts: 'process' | 'boot' | 'disk';
}

interface Held {
  readonly claim: Claim;
  readonly lock: FileLock;
  /** Nobody's before us. */
  readonly isNew: boolean;
  /** What was written there. */
  readonly before: string;
}

interface Owner {
  readonly root: string;
  /** Empty: for ever. */
  readonly bootId: string;
  /** Under which its things were made. In the root folder alone; empty: none are there. */
  readonly instance: string;
}

/**
 * What may be shared is not here: the folders of network namespaces and of pods' logs have names in them that carry the instance or a
 * pod's uid, and configurations of CNI and of registries are only read.
 */
function claimsOf(config: GantryConfig, folder: string): Claim[] {
  const { root, state, podsDir, instance, cgroupParent, criListen, apiListen, runtimeOnly } = config;
  const place = (key: ConfigKey, path: string, lasts: Claim['lasts']): Claim => {
    return { key, value: path, path: join(path, LOCK), lasts };
  };
  const socket = (key: ConfigKey, address: string): Claim => {
    const value = unixSocketPath(address);
    return { key, value, path: `${value}.lock`, lasts: 'process' };
  };
  const cgroup = encodeURIComponent(cgroupParent.slice(1));
  return [
    place('root', root, 'disk'),
    place('state', state, 'boot'),
    ...(runtimeOnly ? [] : [place('podsDir', podsDir, 'disk')]),
    { key: 'instance', value: instance, path: join(folder, `instance-${instance}`), lasts: 'boot' },
    { key: 'cgroupParent', value: cgroupParent, path: join(folder, `cgroup-${cgroup}`), lasts: 'boot' },
    socket('criListen', criListen),
    ...(runtimeOnly ? [] : [socket('apiListen', apiListen)]),
  ];
}

/** All that this process has claimed: nobody else can as long as it lives, and while something of it is left none but its root may. */
export class Claims {
  readonly #held: readonly Held[];

  private constructor(held: readonly Held[]) {
    this.#held = held;
  }

  /**
   * All of it or nothing, and before anything in it is touched. The folders that the configuration names are there.
   *
   * @param bootId of this boot: what an earlier one had claimed until its end is free
   * @throws FailedPrecondition, in one line that says which setting it is, whose that is, and what to do
   */
  static async take(config: GantryConfig, bootId: string, folder: string = CLAIMS_FOLDER): Promise<Claims> {
    await makeFolders(folder, 0o755);
    const held: Held[] = [];
    try {
      for (const claim of claimsOf(config, folder)) {
        // One folder may be several things of one Gantry.
        if (held.some(({ claim: { path } }) => path === claim.path)) continue;
        held.push(await take(claim, { root: config.root, bootId, instance: config.instance }));
      }
    } catch (error) {
      for (const { lock, before } of held) await lock.write(before);
      await letGo(held, ({ isNew }) => isNew);
      throw error;
    }
    return new Claims(held);
  }

  /** `isNothingLeft`: what was claimed is free for everybody, and the root for another instance id. */
  async release(isNothingLeft: boolean): Promise<void> {
    const root = this.#held.find(({ claim }) => claim.key === 'root');
    // A root still, with its images.
    if (isNothingLeft) await root?.lock.write('.\n');
    await letGo(this.#held, ({ claim }) => claim.lasts === 'process' || (isNothingLeft && claim.key !== 'root'));
  }
}

async function letGo(held: readonly Held[], isOver: (one: Held) => boolean): Promise<void> {
  const failures: unknown[] = [];
  for (const one of held.toReversed()) {
    const { claim, lock } = one;
    const done = isOver(one) ? lock.remove() : lock.release();
    await done.catch((error: unknown) => failures.push(error));
    // Unless others' claims are in it.
    if (['instance', 'cgroupParent'].includes(claim.key)) await rmdir(dirname(claim.path)).catch(() => undefined);
  }
  if (failures.length > 0) throw joinErrors(failures);
}

async function take(claim: Claim, self: Owner): Promise<Held> {
  const lock = await lockClaim(claim);
  try {
    if (claim.lasts === 'process') {
      // Another program's: the lock says nothing about that.
      await mustBeUnserved(claim.value);
      await lock.write(wordsOf(claim, self));
      return { claim, lock, isNew: true, before: '' };
    }
    const found = await lock.read();
    const owner = ownerIn(claim, found);
    const isFree = owner === undefined || (owner.bootId !== '' && owner.bootId !== self.bootId);
    if (!isFree && owner.root !== self.root) throw belongsTo(claim, owner);
    if (!isFree && claim.key === 'root') mustBeInstance(owner, self);
    const words = wordsOf(claim, self);
    if (words !== found) await lock.write(words);
    return { claim, lock, isNew: isFree, before: found };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

async function lockClaim(claim: Claim): Promise<FileLock> {
  const { key, value, path } = claim;
  try {
    return await lockFile(path);
  } catch (error) {
    if (!isKind(error, 'FailedPrecondition')) throw withContext(`${flagOf(key)}: ${value} cannot be used`, error);
    const root = ownerIn(claim, await readFile(path, 'utf8').catch(() => ''))?.root;
    const message =
      key === 'root'
        ? `another gantryd is running on ${value}: use it, or give this one ${another(key)}`
        : `${flagOf(key)}: ${value} is in use by the gantryd of --root ${root ?? '(unknown)'}: give this one ${another(key)}`;
    throw failedPrecondition(message, { cause: error });
  }
}

function belongsTo({ key, value, path }: Claim, { root }: Owner): Error {
  const unless = `if that one is no more, or has been moved to this --root, remove ${path}`;
  return failedPrecondition(
    `${flagOf(key)}: ${value} belongs to the Gantry of --root ${root}: give this one ${another(key)}; ${unless}`,
  );
}

/** Under another id they would be nobody's: the agent would not find its pods, nor the network its rules. */
function mustBeInstance({ root, instance }: Owner, self: Owner): void {
  if (instance === '' || instance === self.instance) return;
  throw failedPrecondition(
    `--instance: what there is of the pods of --root ${root} was made under the id ${instance}, not ${self.instance}: give --instance ${instance}, and another one when they have ended and that gantryd, too`,
  );
}

function another(key: ConfigKey): string {
  return `${key === 'instance' ? 'an' : 'a'} ${flagOf(key)} of its own`;
}

/** A folder in the root moves with it: so it names the root as seen from there. */
function wordsOf({ key, path, lasts }: Claim, { root, bootId, instance }: Owner): string {
  const way = relative(dirname(path), root);
  const isInside = /^(\.\.(\/|$))*$/.test(way);
  const words = [isInside ? way || '.' : root, lasts === 'disk' ? '' : bootId, key === 'root' ? instance : ''];
  return `${words.join('\n')}\n`;
}

/** Undefined: nobody's, or of a version that wrote nothing down. */
function ownerIn({ path }: Claim, text: string): Owner | undefined {
  const [root = '', bootId = '', instance = ''] = text.split('\n');
  if (root === '' || (!isAbsolute(root) && !/^[./]+$/.test(root))) return undefined;
  return { root: resolve(dirname(path), root), bootId, instance };
}
