import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';
import { execFile } from '../../src/linux/exec.ts';
import { SafeRemove } from '../../src/linux/safe-remove.ts';
import { LayerDirectory, type LayerRequest } from '../../src/runtime/snapshot/layer-directory.ts';
import { SnapshotThread } from '../../src/runtime/snapshot/worker/snapshot-thread.ts';
import { RuntimePaths } from '../../src/runtime/store/paths.ts';
import { op } from '../support/gantryd.ts';
import { layerOf } from '../support/images.ts';
import type { Samples } from './samples.ts';

const MS_PER_S = 1000;
const FILES_PER_FOLDER = 1000;
const CHECKOUT = new URL('../..', import.meta.url).pathname;
/** What every checkout has: many small files, and the one big one that Node.js is. */
const LAYER = ['typescript', 'eslint', '@typescript-eslint', 'prettier', '@types', '@grpc'];
const BIG = [`node-linux-${process.arch === 'arm64' ? 'arm64' : 'x64'}`];

export interface FileMeasurement {
  readonly quick: boolean;
  readonly samples: Samples;
  readonly progress: (line: string) => void;
}

/** Our one way to delete a tree beside `rm -rf`. */
export async function measureDeletion({ quick, samples, progress }: FileMeasurement): Promise<void> {
  const files = quick ? 5_000 : 100_000;
  await using folder = await Folder.make();
  const remover = new SafeRemove({ clock: systemClock });
  try {
    // Its thread starts with the first one, which is none of what is measured.
    await remover.remove(op, { root: folder.path, path: join(folder.path, 'nothing') });
    for (let turn = 0; turn < (quick ? 1 : 3); turn++) {
      progress(`${String(files)} files to delete`);
      const trees = { gantry: join(folder.path, 'ours'), other: join(folder.path, 'theirs') };
      for (const tree of Object.values(trees)) await makeTree(tree, files);
      await execFile(op, 'sync', []);
      const ways = {
        gantry: async () => {
          const { kind } = await remover.remove(op, { root: folder.path, path: trees.gantry });
          if (kind !== 'removed') throw new Error(`safe-remove: ${kind}`);
        },
        other: () => run('rm', '-rf', trees.other),
      };
      for (const party of inTurns(turn)) samples.add('delete-tree', party, await seconds(ways[party]));
    }
  } finally {
    remover.close();
  }
}

/** One layer, unpacked as a pull unpacks it (verified, synced), beside `tar -xz` of the same file. */
export async function measureUnpacking({ quick, samples, progress }: FileMeasurement): Promise<void> {
  await using folder = await Folder.make();
  progress('a layer to unpack');
  const tar = join(folder.path, 'layer.tar');
  const source = join(folder.path, 'layer.tar.gz');
  const members = quick ? LAYER.slice(0, 2) : [...LAYER, ...BIG];
  await run('tar', '-cf', tar, '-C', join(CHECKOUT, 'node_modules'), ...members);
  const hash = createHash('sha256');
  await pipeline(createReadStream(tar), hash);
  await pipeline(createReadStream(tar), createGzip({ level: 6 }), createWriteStream(source));
  const diffId = `sha256:${hash.digest('hex')}`;
  for (let turn = 0; turn < (quick ? 1 : 3); turn++) {
    const root = join(folder.path, `root-${String(turn)}`);
    const there = join(folder.path, `there-${String(turn)}`);
    for (const path of [root, there]) await mkdir(path);
    const thread = new SnapshotThread({ clock: systemClock });
    const remover = new SafeRemove({ clock: systemClock });
    try {
      const paths = new RuntimePaths(root, root);
      const layers = await LayerDirectory.open(op, { paths, thread, remover, clock: systemClock, log: silentLog });
      await layers.unpack(op, await smallLayer(folder.path));
      const ways = {
        gantry: () => layers.unpack(op, { diffId, source }),
        other: () => run('tar', '-xzf', source, '-C', there),
      };
      for (const party of inTurns(turn)) samples.add('unpack', party, await seconds(ways[party]));
    } finally {
      await thread.close();
      remover.close();
    }
  }
}

/** So that the thread that unpacks runs. */
async function smallLayer(folder: string): Promise<LayerRequest> {
  const { diffId, data } = await layerOf('warm', 'none');
  const source = join(folder, 'small.tar');
  await writeFile(source, data);
  return { diffId, source };
}

function inTurns(turn: number): readonly ('gantry' | 'other')[] {
  return turn % 2 === 0 ? ['gantry', 'other'] : ['other', 'gantry'];
}

async function seconds(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return (performance.now() - began) / MS_PER_S;
}

async function run(program: string, ...args: readonly string[]): Promise<void> {
  const { code, stderr } = await execFile(op, program, args);
  if (code !== 0) throw new Error(`${program}: ${stderr}`);
}

async function makeTree(path: string, files: number): Promise<void> {
  for (let made = 0; made < files;) {
    const folder = join(path, String(made / FILES_PER_FOLDER));
    await mkdir(folder, { recursive: true });
    const here = Math.min(FILES_PER_FOLDER, files - made);
    await Promise.all(Array.from({ length: here }, (_none, i) => writeFile(join(folder, String(i)), 'x')));
    made += here;
  }
}

class Folder implements AsyncDisposable {
  readonly path: string;
  private constructor(path: string) {
    this.path = path;
  }
  static async make(): Promise<Folder> {
    return new Folder(await mkdtemp(join(tmpdir(), 'gantry-bench-')));
  }
  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.path, { recursive: true, force: true });
  }
}
