import type { Op } from '../../lib/abort.ts';
import { unlinkIfThere } from '../../lib/may-be-gone.ts';
import type { ImageStore } from '../image/image-store.ts';
import type { LayerDirectory } from '../snapshot/layer-directory.ts';
import type { Snapshots } from '../snapshot/snapshots.ts';
import type { StorageParts } from './probes/storage.ts';

/** What the rooms that keep images and snapshots say of themselves, together. */
export function storedParts(
  images: Pick<ImageStore, 'strays' | 'unusedLayers' | 'sweep'>,
  layers: Pick<LayerDirectory, 'strays' | 'removeStray'>,
  snapshots: Pick<Snapshots, 'strays' | 'removeStray' | 'list'>,
): StorageParts {
  return {
    snapshots: () => snapshots.list(),
    strays: async () => (await Promise.all([layers.strays(), snapshots.strays(), images.strays()])).flat(),
    unusedLayers: () => images.unusedLayers(),
    removeStray: async (op: Op, path: string) => {
      if ((await layers.strays()).includes(path)) await layers.removeStray(op, path);
      else if ((await snapshots.strays()).includes(path)) await snapshots.removeStray(op, path);
      else if ((await images.strays()).includes(path)) await unlinkIfThere(path);
    },
    removeUnusedLayers: (op) => images.sweep(op),
  };
}
