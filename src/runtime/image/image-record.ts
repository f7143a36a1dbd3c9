import type { OciImageConfig } from './image-config.ts';

/** An image that is here whole: its layers are unpacked. */
export interface ImageRecord {
  /** Digest of the configuration, `sha256:…`. */
  readonly id: string;
  readonly repoTags: readonly string[];
  readonly repoDigests: readonly string[];
  /** Bytes that its unpacked layers take. Layers are shared: the sum over images is more than the disk holds. */
  readonly sizeBytes: number;
  readonly config: OciImageConfig;
  /** From the bottom up. */
  readonly layers: readonly { readonly diffId: string; readonly digest: string; readonly sizeBytes: number }[];
  readonly manifestDigest: string | undefined;
  /** Never to be collected as garbage (CRI Image.pinned). */
  readonly pinned: boolean;
  readonly storedAtWallMs: number;
}

export type RemovedImage =
  | { readonly kind: 'absent' }
  | { readonly kind: 'untagged'; readonly id: string; readonly names: readonly string[] }
  | { readonly kind: 'removed'; readonly id: string; readonly names: readonly string[] };

export interface ImageFsInfo {
  readonly mountpoint: string;
  readonly usedBytes: number;
  readonly inodesUsed: number;
  readonly takenAtWallMs: number;
}
