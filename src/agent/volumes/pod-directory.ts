import { readFile, rmdir, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { isTemporaryOf, keepFile } from '../../lib/atomic-file.ts';
import { errnoOf } from '../../lib/errors.ts';
import { namesIn, unlinkIfThere } from '../../lib/may-be-gone.ts';
import type { NodePod } from '../pods/node-pod.ts';
import { unescapePluginName, type PodPaths } from '../pods/paths.ts';

/** Whose directory it is: read by an agent that finds it after a restart, when the API has forgotten the pod. */
export interface PodIdentity {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
}

export interface FoundVolume {
  readonly podUid: string;
  readonly pluginName: string;
  readonly name: string;
}

const IDENTITY = 'pod.json';
const UID = /^[A-Za-z0-9][-A-Za-z0-9.]*$/;

/** Makes the pod's directory and writes down whose it is. */
export async function makePodDirectory(paths: PodPaths, pod: NodePod): Promise<void> {
  const directory = paths.pod(pod.uid);
  await mkdir(directory, { recursive: true, mode: 0o750 });
  const identity: PodIdentity = { uid: pod.uid, namespace: pod.namespace, name: pod.name };
  await keepFile(join(directory, IDENTITY), JSON.stringify(identity), { sync: false });
}

export async function readPodIdentity(paths: PodPaths, uid: string): Promise<PodIdentity | undefined> {
  try {
    const { namespace, name } = JSON.parse(await readFile(join(paths.pod(uid), IDENTITY), 'utf8')) as PodIdentity;
    return { uid, namespace, name };
  } catch {
    // Gone or torn: the directory is still looked after, only its name is not known.
    return undefined;
  }
}

/** Whether an agent of Gantry's made the pod's directory: another's pods may have theirs in the same folder. */
export async function wasMadeByAgent(paths: PodPaths, uid: string): Promise<boolean> {
  return (await namesIn(paths.pod(uid))).some((name) => ownFileOf(name) === IDENTITY);
}

/** The pods that have a directory here. */
export async function listPodDirectories(paths: PodPaths): Promise<string[]> {
  const entries = await namesIn(paths.podsDir);
  return entries.filter((name) => UID.test(name));
}

/** Every volume whose directory is there, as a restarted agent finds them: the name of the kind tells who tears it down. */
export async function findVolumes(paths: PodPaths, uid: string): Promise<FoundVolume[]> {
  const found: FoundVolume[] = [];
  for (const kind of await namesIn(paths.volumes(uid))) {
    for (const name of await namesIn(join(paths.volumes(uid), kind))) {
      found.push({ podUid: uid, pluginName: unescapePluginName(kind), name });
    }
  }
  return found;
}

/**
 * Takes away a pod's directory once its volumes are gone: only the files that the agent itself puts there, and then
 * empty directories. Whatever else lies there stays, and so does the directory; answers whether it is gone.
 */
export async function removePodDirectory(paths: PodPaths, uid: string): Promise<boolean> {
  const directory = paths.pod(uid);
  for (const parent of [paths.volumes(uid), join(directory, 'plugins'), join(directory, 'containers')]) {
    for (const name of await namesIn(parent)) await rmdirIfEmpty(join(parent, name));
    await rmdirIfEmpty(parent);
  }
  const names = await namesIn(directory);
  if (names.some((name) => ownFileOf(name) === undefined)) return false;
  // The identity goes last: until then a crash leaves a directory that still has a name.
  for (const name of names) if (name !== IDENTITY) await unlinkIfThere(join(directory, name));
  await unlinkIfThere(join(directory, IDENTITY));
  return await rmdirIfEmpty(directory);
}

const OWN_FILES = ['etc-hosts', 'termination.json', 'userns', IDENTITY];

/** One of ours, or what is left of it by an agent that was killed in the middle of writing it. */
function ownFileOf(name: string): string | undefined {
  return OWN_FILES.find((file) => name === file || isTemporaryOf(name, file));
}

async function rmdirIfEmpty(directory: string): Promise<boolean> {
  try {
    await rmdir(directory);
    return true;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return true;
    if (['ENOTEMPTY', 'EEXIST', 'EBUSY', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return false;
    throw error;
  }
}
