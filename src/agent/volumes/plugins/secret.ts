import { chmod } from 'node:fs/promises';
import type { VolumePlugin } from '../plugin.ts';
import { writeKeys, type KeyVolumeDeps } from './config-map.ts';
import { makeVolumeDirectory, tearDownDirectory } from './directory-teardown.ts';
import { memoryFileSystem, mountOwn } from './empty-dir.ts';

export const SECRET_PLUGIN = 'kubernetes.io/secret';

/** Secrets are at most 1 MiB, but each file takes a page, and two versions lie side by side while one replaces the other. */
const SECRET_BYTES = 32 << 20;

/** Like a ConfigMap's, on a memory file system: a secret is never written to a disk. */
export function secretPlugin(deps: KeyVolumeDeps): VolumePlugin {
  return {
    name: SECRET_PLUGIN,
    refreshes: true,
    supports: (volume) => volume.secret !== undefined,
    setUp: async (op, request) => {
      const source = request.volume.secret ?? {};
      await makeVolumeDirectory(request, 'Memory');
      await mountOwn(op, deps, request.directory, memoryFileSystem(SECRET_BYTES));
      await chmod(request.directory, 0o755);
      await writeKeys(op, deps, request, { kind: 'secrets', name: source.secretName ?? '' }, source);
      return request.directory;
    },
    tearDown: (op, request) => tearDownDirectory(op, deps, request),
  };
}
