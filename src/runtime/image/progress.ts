import type { Digest } from './digest.ts';

/**
 * - `waiting`: for its turn to be downloaded
 * - `downloading`, `unpacking`: `bytes` of `totalBytes` are done
 * - `present`: it was there already, nothing had to be done
 * - `done`: it is there now
 */
export type LayerState = 'waiting' | 'downloading' | 'unpacking' | 'present' | 'done';

/** One step of a layer on its way in, for progress bars. */
export interface LayerProgress {
  readonly layer: Digest;
  readonly state: LayerState;
  readonly bytes: number;
  readonly totalBytes: number;
}

export type OnProgress = (event: LayerProgress) => void;
