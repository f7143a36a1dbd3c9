import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Op } from '../../../src/lib/abort.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { mountsBelow, readMountinfo } from '../../../src/linux/mountinfo.ts';
import { Mounts } from '../../../src/linux/mounts.ts';
import { SafeRemove } from '../../../src/linux/safe-remove.ts';
import { LayerDirectory, type LayerResult } from '../../../src/runtime/snapshot/layer-directory.ts';
import { Snapshots } from '../../../src/runtime/snapshot/snapshots.ts';
import type { UnpackLimits } from '../../../src/runtime/snapshot/unpack/unpack-limits.ts';
import { SnapshotThread } from '../../../src/runtime/snapshot/worker/snapshot-thread.ts';
import { RuntimePaths } from '../../../src/runtime/store/paths.ts';
import { archive, diffIdOf, type Member } from './archive.ts';

export const needsRoot = { skip: process.getuid?.() !== 0 && 'needs root' };

export interface Room {
  readonly op: Op;
  /** Everything of the test lies below; removed at the end, and nothing may be mounted there then. */
  readonly base: string;
  readonly root: string;
  /** Beside the data directory: must look the same at the end. */
  readonly outside: string;
  readonly thread: SnapshotThread;
  readonly remover: SafeRemove;
  readonly mounts: Mounts;
  layers: LayerDirectory;
  snapshots: Snapshots;
  /** Root file systems that were taken off under somebody, and who that was. */
  readonly detached: (readonly [target: string, users: string])[];
  /** As a restarted daemon finds it. */
  reopen(): Promise<void>;
  /** Puts the bytes into a file and unpacks that as a layer. */
  unpackBytes(blob: Buffer, diffId?: string): Promise<LayerResult>;
  unpack(...members: readonly Member[]): Promise<LayerResult>;
  /** Names in the layers directory, but for the constant one. */
  layerNames(): string[];
}

export interface RoomOptions {
  readonly limits?: UnpackLimits;
  readonly overlayByLayer?: boolean;
  /** Default: false, since one test unpacks hundreds of layers. */
  readonly durable?: boolean;
}

export async function openRoom(t: TestContext, options: RoomOptions = {}): Promise<Room> {
  const base = mkdtempSync(join(realpathSync(tmpdir()), 'gantry-snapshot-'));
  const root = join(base, 'root');
  const outside = join(base, 'outside');
  makeSentinel(outside);
  const before = describeTree(outside);
  const paths = new RuntimePaths(root, base);
  const deps = { paths, clock: systemClock, log: silentLog, limits: options.limits, durable: options.durable ?? false };
  const thread = new SnapshotThread(deps);
  const createThread = new SnapshotThread(deps);
  const remover = new SafeRemove(deps);
  const mounts = new Mounts({ clock: systemClock, overlayByLayer: options.overlayByLayer });
  const op: Op = { signal: new AbortController().signal, log: silentLog };
  mkdirSync(root);
  const detached: (readonly [string, string])[] = [];
  const onDetached = (target: string, users: string): void => void detached.push([target, users]);
  const open = async () => {
    const layers = await LayerDirectory.open(op, { ...deps, thread, remover });
    const snapshots = await Snapshots.open({ ...deps, thread, createThread, remover, mounts, layers, onDetached });
    return { layers, snapshots };
  };
  let blobs = 0;
  const room: Room = {
    ...{ op, base, root, outside, thread, remover, mounts, detached },
    ...(await open()),
    reopen: async () => {
      Object.assign(room, await open());
      await room.layers.settled();
    },
    unpackBytes: async (blob, diffId = diffIdOf(blob)) => {
      const source = join(base, `blob-${String(++blobs)}`);
      writeFileSync(source, blob);
      return await room.layers.unpack(op, { diffId, source });
    },
    unpack: (...members) => room.unpackBytes(archive(...members)),
    layerNames: () => readdirSync(join(root, 'layers')).filter((name) => name !== '.empty'),
  };
  t.after(async () => {
    await room.layers.settled();
    await thread.close();
    await createThread.close();
    const after = describeTree(outside);
    const left = mountsBelow(await readMountinfo(), base);
    for (const mount of left) await mounts.unmount(op, mount.mountPoint, { detach: true });
    const gone = await remover.remove(op, { root: tmpdir(), path: base });
    remover.close();
    assert.deepEqual(
      left.map((mount) => mount.mountPoint),
      [],
      'mounts were left',
    );
    assert.equal(gone.kind, 'removed');
    assert.deepEqual(after, before, 'something outside the layer changed');
  });
  return room;
}

/** What an attack would read, change, replace, link to or write beside. */
function makeSentinel(outside: string): void {
  mkdirSync(join(outside, 'dir'), { recursive: true });
  writeFileSync(join(outside, 'secret'), 'secret', { mode: 0o600 });
  writeFileSync(join(outside, 'dir/file'), 'file');
}

/** Every name below with all that can be told about it. */
export function describeTree(directory: string): Record<string, string> {
  const tree: Record<string, string> = {};
  const visit = (path: string, shown: string): void => {
    const stat = lstatSync(path, { bigint: true });
    const facts = [stat.ino, stat.mode.toString(8), stat.uid, stat.gid, stat.nlink, stat.mtimeNs, stat.ctimeNs].join(
      ' ',
    );
    let content = '';
    if (stat.isSymbolicLink()) content = readlinkSync(path);
    if (stat.isFile()) content = createHash('sha256').update(readFileSync(path)).digest('hex');
    tree[shown] = `${facts} ${content}`;
    if (stat.isDirectory()) for (const name of readdirSync(path)) visit(join(path, name), `${shown}/${name}`);
  };
  visit(directory, '.');
  return tree;
}
