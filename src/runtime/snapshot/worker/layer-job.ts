import { fsyncSync, mkdirSync, writeFileSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { canceled, errnoOf, GantryError } from '../../../lib/errors.ts';
import type { FaultPoints } from '../../../lib/fault-points.ts';
import { fromNodeError } from '../../../linux/errno.ts';
import { AT_FDCWD, O, RENAME } from '../../../linux/kernel-constants.ts';
import type { FileSyscalls } from '../../../linux/syscalls.ts';
import { FILES_NAME, MARKER_NAME, MAX_IMPLIED, type DirectoryAttributes, type LayerMarker } from '../layer-marker.ts';
import { packDirectory } from '../unpack/pack-directory.ts';
import { LayerUnpacker, unpackLayerFile, type DigestAlgorithm, type UnpackedTree } from '../unpack/unpack-layer.ts';
import { layerName } from './layer-name.ts';
import type { LayerJob, LayerJobResult } from './protocol.ts';

export interface JobContext {
  readonly sys: FileSyscalls;
  readonly faults: Pick<FaultPoints, 'pass'>;
  readonly signal: AbortSignal;
  readonly progress: (bytes: number) => void;
}

/** How much is packed in one go before other jobs of the thread, and a cancel, get their turn. */
const TURN_BYTES = 1 << 20;

/**
 * Unpacks into a staged directory, verifies, writes the marker, brings all of it to the disk, and only then gives the
 * directory its name: after a power cut a layer is there whole or not at all.
 */
export async function runLayerJob(job: LayerJob, context: JobContext): Promise<LayerJobResult> {
  const { sys, faults } = context;
  const staging = `${job.layers}/${job.staging}`;
  const files = `${staging}/${FILES_NAME}`;
  makeStaging(sys, staging, files);
  faults.pass('unpack-layer/staged');
  const tree =
    job.source.kind === 'archive'
      ? await unpackLayerFile(job.source.path, optionsFor(job, files, context), context.progress)
      : await unpackDirectory(job, files, context);
  if (job.expected !== undefined && tree.diffId !== job.expected) {
    throw new GantryError('DataLoss', `the layer's content is ${tree.diffId}, the image says ${job.expected}`);
  }
  faults.pass('unpack-layer/unpacked');
  const marker = markerOf(tree, rootOf(sys, files, tree));
  writeFileSync(`${staging}/${MARKER_NAME}`, `${JSON.stringify(marker)}\n`, { flag: 'wx', mode: 0o600 });
  faults.pass('unpack-layer/marked');
  return { marker, placed: place(context, job, staging, marker) };
}

function makeStaging(sys: FileSyscalls, staging: string, files: string): void {
  try {
    mkdirSync(staging, { mode: 0o700 });
  } catch (error) {
    throw fromNodeError(error, `staging directory ${staging}`);
  }
  // A root directory that no layer describes is the usual one.
  sys.mkdirat(AT_FDCWD, files, 0o755);
}

function optionsFor(job: LayerJob, target: string, { sys, signal }: JobContext) {
  const algorithm: DigestAlgorithm = job.expected?.startsWith('sha512:') ? 'sha512' : 'sha256';
  return { sys, signal, target, limits: job.limits, algorithm };
}

async function unpackDirectory(job: LayerJob, files: string, context: JobContext): Promise<UnpackedTree> {
  using unpacker = new LayerUnpacker(optionsFor(job, files, context));
  let packed = 0;
  let turnEnds = TURN_BYTES;
  for (const piece of packDirectory(context.sys, job.source.path)) {
    unpacker.write(piece);
    packed += piece.length;
    if (packed < turnEnds) continue;
    turnEnds = packed + TURN_BYTES;
    context.progress(packed);
    await nextTurn();
    if (context.signal.aborted) throw canceled('copying the root filesystem was canceled');
  }
  return unpacker.finish();
}

function rootOf(sys: FileSyscalls, files: string, tree: UnpackedTree): DirectoryAttributes | undefined {
  if (tree.impliedDirectories.includes('')) return undefined;
  const { mode, uid, gid } = sys.statx(AT_FDCWD, files);
  return { mode: mode & 0o7777, uid, gid };
}

function markerOf(tree: UnpackedTree, root: DirectoryAttributes | undefined): LayerMarker {
  const { diffId, bytes, entries, opaqueRoot, skippedXattrs } = tree;
  const impliedDirectories = tree.impliedDirectories.filter((path) => path !== '').slice(0, MAX_IMPLIED);
  return { version: 1, diffId, bytes, entries, ...(root && { root }), impliedDirectories, opaqueRoot, skippedXattrs };
}

function place({ sys, faults }: JobContext, job: LayerJob, staging: string, marker: LayerMarker): boolean {
  const layers = sys.openat2(AT_FDCWD, job.layers, { flags: O.DIRECTORY });
  try {
    if (job.durable) sys.syncfs(layers);
    faults.pass('unpack-layer/synced');
    sys.renameat2(AT_FDCWD, staging, layers, layerName(marker.diffId), RENAME.NOREPLACE);
    faults.pass('unpack-layer/renamed');
    if (job.durable) fsyncSync(layers);
    return true;
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return false;
    throw error;
  } finally {
    sys.close(layers);
  }
}
