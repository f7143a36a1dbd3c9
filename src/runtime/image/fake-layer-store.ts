import { readdir, stat } from 'node:fs/promises';
import type { Op } from '../../lib/abort.ts';
import { decompressed, sniffFile, type Compression } from './compression.ts';
import { digestOf } from './digest.ts';
import type { LayerStore, UnpackedLayer, UnpackRequest } from './layer-store.ts';
import { computeDiffId, verifyDiffId } from './verify-diff-id.ts';

/** A layer store that keeps names and sizes only, but reads and verifies every byte as the real one does. */
export class FakeLayerStore implements LayerStore {
  readonly layers = new Map<string, UnpackedLayer>();
  /** diffIds in the order of unpacking. */
  readonly unpacked: string[] = [];
  /** What a container uses. */
  readonly held = new Set<string>();
  /** Waited for before a layer is unpacked or removed, so that tests can hold it there. */
  gate: () => Promise<void> = () => Promise.resolve();

  has(diffId: string): boolean {
    return this.layers.has(diffId);
  }

  measure(diffId: string): { sizeBytes: number; inodes: number } | undefined {
    const layer = this.layers.get(diffId);
    return layer === undefined ? undefined : { sizeBytes: layer.sizeBytes, inodes: layer.inodes ?? 0 };
  }

  list(): Iterable<string> {
    return this.layers.keys();
  }

  isHeld(diffId: string): boolean {
    return this.held.has(diffId);
  }

  async unpack(op: Op, { diffId, source, onProgress }: UnpackRequest): Promise<UnpackedLayer> {
    await this.gate();
    const compression = await compressionOf(source);
    let sizeBytes = 0;
    for await (const chunk of decompressed(source, compression, 'layer')) {
      op.signal.throwIfAborted();
      sizeBytes += chunk.length;
      onProgress?.(sizeBytes);
    }
    await verifyDiffId(op, source, compression, diffId);
    const layer = { diffId, sizeBytes, inodes: 1 };
    this.layers.set(diffId, layer);
    this.unpacked.push(diffId);
    return layer;
  }

  /** Of a folder only the names of its entries count. */
  async adoptRootfs(op: Op, path: string): Promise<UnpackedLayer> {
    const isDirectory = (await stat(path)).isDirectory();
    const diffId = isDirectory
      ? digestOf((await readdir(path)).toSorted().join('\n'))
      : await computeDiffId(op, path, await compressionOf(path));
    const layer = { diffId, sizeBytes: 1, inodes: 1 };
    this.layers.set(diffId, layer);
    return layer;
  }

  async remove(_op: Op, diffId: string): Promise<void> {
    await this.gate();
    this.layers.delete(diffId);
  }
}

async function compressionOf(path: string): Promise<Compression> {
  const found = await sniffFile(path);
  return found === 'gzip' || found === 'zstd' ? found : 'none';
}
