import type { ImageStore } from './image/image-store.ts';
import type { LayerStore } from './image/layer-store.ts';
import type { ImageLookup } from './parts.ts';
import type { LayerDirectory } from './snapshot/layer-directory.ts';

/** What images know of layers, over the directory that has them. */
export function layerStore(layers: LayerDirectory): LayerStore {
  return {
    has: (diffId) => layers.has(diffId),
    measure: (diffId) => layers.measure(diffId),
    list: () => layers.list(),
    isHeld: (diffId) => layers.isHeld(diffId),
    warmUp: () => layers.warmUp(),
    unpack: (op, { diffId, source, onProgress }) =>
      layers.unpack(op, { diffId, source, ...(onProgress === undefined ? {} : { onProgress }) }),
    adoptRootfs: (op, path, onProgress) => layers.adoptRootfs(op, path, onProgress),
    remove: (op, diffId) => layers.remove(op, diffId),
  };
}

/** What containers know of images. */
export function imageLookup(images: ImageStore): ImageLookup {
  return {
    find: (reference) => {
      const record = images.resolve(reference);
      if (record === undefined) return undefined;
      const { Entrypoint, Cmd, Env, WorkingDir, User, StopSignal } = record.config.config;
      return {
        id: record.id,
        repoTags: record.repoTags,
        repoDigests: record.repoDigests,
        diffIds: record.layers.map(({ diffId }) => diffId),
        ...(Entrypoint === undefined ? {} : { entrypoint: Entrypoint }),
        ...(Cmd === undefined ? {} : { cmd: Cmd }),
        ...(Env === undefined ? {} : { env: Env }),
        ...(WorkingDir === undefined ? {} : { workingDir: WorkingDir }),
        ...(User === undefined ? {} : { user: User }),
        ...(StopSignal === undefined ? {} : { stopSignal: StopSignal }),
      };
    },
  };
}
