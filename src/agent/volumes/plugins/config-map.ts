import { chmod } from 'node:fs/promises';
import type { Clock } from '../../../lib/clock.ts';
import type { Op } from '../../../lib/abort.ts';
import { failedPrecondition } from '../../../lib/errors.ts';
import type { KeyToPath } from '../../../kube/objects.ts';
import type { Reference } from '../../sync/env.ts';
import type { SetUpRequest, VolumePlugin } from '../plugin.ts';
import { writeAtomicDirectory } from './atomic-directory.ts';
import { makeVolumeDirectory, tearDownDirectory, type DirectoryDeps } from './directory-teardown.ts';
import { keyFiles } from './key-files.ts';

export const CONFIG_MAP_PLUGIN = 'kubernetes.io/configmap';

export interface KeyVolumeDeps extends DirectoryDeps {
  readonly clock: Clock;
  /** Every key of a ConfigMap or Secret with its bytes; undefined when it does not exist. */
  readonly read: (op: Op, namespace: string, reference: Reference) => Promise<ReadonlyMap<string, Buffer> | undefined>;
}

export function configMapPlugin(deps: KeyVolumeDeps): VolumePlugin {
  return {
    name: CONFIG_MAP_PLUGIN,
    refreshes: true,
    supports: (volume) => volume.configMap !== undefined,
    setUp: async (op, request) => {
      const source = request.volume.configMap ?? {};
      await makeVolumeDirectory(request, '');
      await chmod(request.directory, 0o755);
      await writeKeys(op, deps, request, { kind: 'configmaps', name: source.name ?? '' }, source);
      return request.directory;
    },
    tearDown: (op, request) => tearDownDirectory(op, deps, request),
  };
}

const DEFAULT_MODE = 0o644;

/** Brings the volume's files to what the object says now. */
export async function writeKeys(
  op: Op,
  deps: KeyVolumeDeps,
  request: SetUpRequest,
  reference: Reference,
  source: { readonly items?: readonly KeyToPath[]; readonly defaultMode?: number; readonly optional?: boolean },
): Promise<void> {
  const { pod, directory } = request;
  const optional = source.optional ?? false;
  const what = `${reference.kind === 'secrets' ? 'secret' : 'configmap'} "${pod.namespace}/${reference.name}"`;
  const data = await deps.read(op, pod.namespace, reference);
  if (data === undefined && !optional) throw failedPrecondition(`${what} not found`);
  const files = keyFiles(what, data ?? new Map<string, Buffer>(), {
    ...(source.items === undefined ? {} : { items: source.items }),
    defaultMode: source.defaultMode ?? DEFAULT_MODE,
    optional,
  });
  const { stale } = await writeAtomicDirectory(directory, files, deps.clock.wallMs());
  // Seen from the volume itself, which may be a file system of its own.
  for (const path of stale) await deps.remover.remove(op, { root: directory, path });
}
