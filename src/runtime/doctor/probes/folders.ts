import { basename, dirname, join } from 'node:path';
import { namesIn } from '../../../lib/may-be-gone.ts';
import { isBelow, readMountinfo } from '../../../linux/mountinfo.ts';
import type { RuntimeContext } from '../../context.ts';
import { isOurNetns } from '../../sandbox/plan-sandbox.ts';
import { isVolumeName, type RuntimePaths } from '../../store/paths.ts';
import { snapshotOfMount } from '../../snapshot/snapshot-mount.ts';
import { attachSocketPath } from '../../task/bundle-files.ts';
import type { Found, Kind } from '../inventory.ts';
import { OBJECT_ID } from './object-id.ts';

type Places = Pick<RuntimeContext, 'paths' | 'settings'>;

/** Folders, exit files, sockets and OCI runtime's state: by the ids that are their names. */
export async function findFolders({ paths }: Pick<RuntimeContext, 'paths'>): Promise<Found[]> {
  const found: Found[] = [];
  const add = async (kind: Kind, folder: string): Promise<void> => {
    for (const id of await namesIn(folder)) {
      if (OBJECT_ID.test(id)) found.push({ kind, key: join(folder, id), ids: [id] });
    }
  };
  await add('directory', paths.sandboxes);
  await add('bundle', paths.containers);
  await add('exit-file', paths.exits.written);
  await add('exit-file', paths.exits.kept);
  for (const name of await namesIn(paths.state)) {
    const path = join(paths.state, name);
    if (paths.ociRuntimeOf(path) !== undefined) await add('oci-state', path);
  }
  found.push(...(await findSockets(paths)));
  return found;
}

/** conmon's links, named by the first half of an id; those of running execs have a folder beside. */
async function findSockets({ sockets, execs }: RuntimePaths): Promise<Found[]> {
  const names = await namesIn(sockets);
  const ofExecs = new Set((await namesIn(execs)).map((id) => dirname(attachSocketPath(sockets, id))));
  return names
    .map((name) => join(sockets, name))
    .filter((path) => !ofExecs.has(path))
    .map((key): Found => ({ kind: 'socket', key }));
}

/** Pinned network namespaces; the folder is shared with other runtimes. By name: the folder may have been spelled in another way before. */
export async function findNetns({
  settings,
  sandboxes,
}: Pick<RuntimeContext, 'settings' | 'sandboxes'>): Promise<Found[]> {
  const owners = new Map(
    sandboxes.list().map(({ meta: { id, facts } }) => [basename(facts.netnsPath ?? ''), id] as const),
  );
  return (await namesIn(settings.netnsDir)).map((name): Found => {
    const key = join(settings.netnsDir, name);
    const owner = owners.get(name);
    if (owner !== undefined) return { kind: 'netns', key, ids: [owner] };
    if (isOurNetns(key, settings.instance)) return { kind: 'netns', key };
    return { kind: 'netns', key, foreign: whoseNetns(name) };
  });
}

function whoseNetns(name: string): string {
  const other = /^gantry-([a-z0-9]{1,8})-/.exec(name)?.[1];
  if (other !== undefined) return `of the Gantry instance ${other}`;
  return name.startsWith('cni-') ? "another runtime's (containerd and CRI-O name theirs so)" : "not this Gantry's";
}

/** What is mounted in the folders of sandboxes and containers: by its place and, of an overlay, by what is in it, what we mount ourselves; the rest is others'. */
export async function findMounts({ paths }: Places): Promise<Found[]> {
  return (await readMountinfo()).flatMap((mount): Found[] => {
    const { mountPoint, fsType, source } = mount;
    const inSandboxes = isBelow(mountPoint, paths.sandboxes);
    if (!inSandboxes && !isBelow(mountPoint, paths.containers)) return [];
    const [id = '', name, ...rest] = mountPoint
      .slice((inSandboxes ? paths.sandboxes : paths.containers).length + 1)
      .split('/');
    const kind =
      rest.length > 0 ? undefined : inSandboxes ? SANDBOX_MOUNTS.get(name ?? '') : containerMount(name ?? '');
    const mayBeOurs = kind !== 'rootfs' || snapshotOfMount(mount) !== undefined;
    if (kind !== undefined && mayBeOurs && OBJECT_ID.test(id)) return [{ kind, key: mountPoint, ids: [id] }];
    const foreign = `${fsType} from ${source}, mounted by somebody else in a folder of ours: it keeps that from being removed`;
    return [{ kind: 'mount', key: mountPoint, ids: [id], foreign }];
  });
}

const SANDBOX_MOUNTS: ReadonlyMap<string, Kind> = new Map([
  ['shm', 'tmpfs'],
  ['ipc', 'pin'],
  ['uts', 'pin'],
]);

/** An image volume is what a root file system is: an overlay of an image's layers. */
function containerMount(name: string): Kind | undefined {
  return name === 'rootfs' || isVolumeName(name) ? 'rootfs' : undefined;
}
