import type { VolumeKey } from './desired-state.ts';
import { volumeKey } from './desired-state.ts';
import type { TeardownBlocker } from './plugin.ts';

/** A volume that is there, or may be. */
export interface ActualVolume {
  readonly podUid: string;
  readonly name: string;
  readonly pluginName: string;
  readonly state: ActualVolumeState;
  /** Present while its teardown meets something that is in the way. */
  readonly blocked?: TeardownBlock;
  /** Why it could not be made ready (again), until it is. */
  readonly setUpError?: string;
}

/**
 *   (none) --set-up begins--> uncertain --set-up done--> mounted
 *      ^                        |  ^                        |
 *      +------- teardown -------+  +-- teardown begins -----+
 *
 * Uncertain: an operation has begun and not ended, or the directory was found on disk at start.
 */
export type ActualVolumeState =
  | { readonly kind: 'mounted'; readonly path: string; readonly refreshAtMs: number }
  | { readonly kind: 'uncertain'; readonly path?: string };

export interface TeardownBlock {
  readonly blockers: readonly TeardownBlocker[];
  readonly message: string;
  readonly sinceWallMs: number;
  readonly attempts: number;
}

/** The world as it is, as far as we know: which volumes exist on this machine. */
export class ActualState {
  readonly #volumes = new Map<VolumeKey, ActualVolume>();

  get(podUid: string, name: string): ActualVolume | undefined {
    return this.#volumes.get(volumeKey(podUid, name));
  }

  set(volume: ActualVolume): void {
    this.#volumes.set(volumeKey(volume.podUid, volume.name), volume);
  }

  delete(podUid: string, name: string): void {
    this.#volumes.delete(volumeKey(podUid, name));
  }

  ofPod(podUid: string): ActualVolume[] {
    return this.all().filter((volume) => volume.podUid === podUid);
  }

  all(): ActualVolume[] {
    return [...this.#volumes.values()];
  }
}
