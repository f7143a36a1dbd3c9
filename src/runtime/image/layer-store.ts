import type { Op } from '../../lib/abort.ts';
import type { Digest } from './digest.ts';

/** What unpacking a layer came to. */
export interface UnpackedLayer {
  /** sha256 of the uncompressed tar, computed while unpacking. */
  readonly diffId: string;
  /** Bytes that the unpacked files take. */
  readonly sizeBytes: number;
  /** Files, directories and links in the layer, if it was counted. */
  readonly inodes?: number;
}

export interface UnpackRequest {
  /** What the image's configuration says the layer is. Another content is refused with DataLoss. */
  readonly diffId: Digest;
  /** The blob as it came, in a file of its own. Its digest has been verified already. */
  readonly source: string;
  /** Bytes of `source` read so far. */
  readonly onProgress?: (bytes: number) => void;
}

/**
 * Where layers live once they are unpacked, one directory each, named by what is in it. Runtime's snapshot room
 * implements it; this is all that images know of it.
 */
export interface LayerStore {
  /** Whether the layer is there whole. Answers from memory. */
  has(diffId: string): boolean;
  /** What a layer that is there takes, as it was counted when it was unpacked. From memory; undefined for one that is not there. */
  measure(diffId: string): { readonly sizeBytes: number; readonly inodes: number } | undefined;
  /** Every layer that is there whole. From memory; lets layers that no image refers to be found after a crash. */
  list?(): Iterable<string>;
  /**
   * Unpacks one layer, all of it or nothing (staged, synced, renamed into place).
   * Throws DataLoss for a damaged stream or a diffId that differs, InvalidArgument for an entry that leaves the layer,
   * ResourceExhausted when the disk is full.
   */
  unpack(op: Op, request: UnpackRequest): Promise<UnpackedLayer>;
  /**
   * Makes a layer of a root file system: a folder, or a tar archive, compressed or not. The same content always gives
   * the same diffId. Throws NotFound, InvalidArgument for what is neither, otherwise as `unpack`.
   */
  adoptRootfs(op: Op, path: string, onProgress?: (bytes: number) => void): Promise<UnpackedLayer>;
  /** Whether a container, or what else has it mounted, needs it: it is not removed now. From memory. */
  isHeld?(diffId: string): boolean;
  /** Layers are about to come: whatever unpacks them may start. */
  warmUp?(): void;
  /** Removes a layer. One that is not there is a success. Throws FailedPrecondition for one that is held. */
  remove(op: Op, diffId: string): Promise<void>;
}
