import type { Volume } from '../../kube/objects.ts';
import type { NodePod } from '../pods/node-pod.ts';
import type { VolumePlugin } from './plugin.ts';

/** A volume that should be there for a pod. */
export interface DesiredVolume {
  readonly key: VolumeKey;
  readonly pod: NodePod;
  readonly volume: Volume;
  readonly plugin: VolumePlugin;
}

/** `uid/volume`: one volume of one pod, and what operations are told apart by. */
export type VolumeKey = `${string}/${string}`;

export function volumeKey(podUid: string, volume: string): VolumeKey {
  return `${podUid}/${volume}`;
}

/** The world as the pods want it: which volumes should be ready, and for whom. */
export class DesiredState {
  readonly #byPod = new Map<string, readonly DesiredVolume[]>();

  /** Replaces what one pod wants. */
  setPod(podUid: string, volumes: readonly DesiredVolume[]): void {
    this.#byPod.set(podUid, volumes);
  }

  deletePod(podUid: string): void {
    this.#byPod.delete(podUid);
  }

  has(podUid: string, volume: string): boolean {
    return this.ofPod(podUid).some((desired) => desired.volume.name === volume);
  }

  hasPod(podUid: string): boolean {
    return this.#byPod.has(podUid);
  }

  ofPod(podUid: string): readonly DesiredVolume[] {
    return this.#byPod.get(podUid) ?? [];
  }

  all(): DesiredVolume[] {
    return [...this.#byPod.values()].flat();
  }

  pods(): string[] {
    return [...this.#byPod.keys()];
  }
}
