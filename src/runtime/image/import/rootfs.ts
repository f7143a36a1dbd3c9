import type { Op } from '../../../lib/abort.ts';
import { withContext } from '../../../lib/errors.ts';
import { digestOf, parseDigest, type Digest } from '../digest.ts';
import { decodeImageConfig, type ImageExecutionConfig } from '../image-config.ts';
import type { LayerLedger } from '../layer-ledger.ts';
import type { LayerStore } from '../layer-store.ts';
import type { OnProgress } from '../progress.ts';
import type { ImportDeps, ImportedImage } from './import-deps.ts';
import { PlainLayerSource, plainImageLayer } from './plain-layers.ts';

/** What containers made from the image run, and how. */
export interface RootfsSettings {
  readonly entrypoint?: readonly string[];
  readonly cmd?: readonly string[];
  readonly env?: readonly string[];
  readonly workdir?: string;
  readonly user?: string;
  readonly stopSignal?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

export interface RootfsRequest {
  readonly path: string;
  readonly sizeBytes: number;
  readonly name: string;
  readonly settings: RootfsSettings;
}

export interface RootfsDeps extends ImportDeps {
  readonly layers: LayerStore;
  readonly ledger: LayerLedger;
  readonly onProgress: OnProgress;
}

/** What the layer is called while it has no name of its own: its digest is known only when it is made. */
const UNNAMED = `sha256:${'0'.repeat(64)}` as Digest;

/**
 * Makes an image of one layer. The same files and settings give the same image id: nothing of the time or the place of
 * the import goes into it.
 */
export async function importRootfs(op: Op, deps: RootfsDeps, request: RootfsRequest): Promise<ImportedImage> {
  const { path, name, settings, sizeBytes } = request;
  const hold = deps.ledger.hold();
  try {
    const made = await deps.layers.adoptRootfs(op, path, (bytes) => {
      deps.onProgress({ layer: UNNAMED, state: 'unpacking', bytes, totalBytes: Math.max(bytes, sizeBytes) });
    });
    const diffId = parseDigest(made.diffId);
    deps.ledger.add(op, diffId, { diffId, sizeBytes: made.sizeBytes, inodes: made.inodes ?? 0 });
    const configText = rootfsConfig(deps, settings, diffId);
    const image = {
      id: digestOf(configText),
      manifestDigest: undefined,
      configText,
      config: decodeImageConfig(configText),
      layers: [plainImageLayer({ diffId, sizeBytes: made.sizeBytes })],
    };
    return { image: await deps.bringIn(new PlainLayerSource([]), image, [name]), names: [name] };
  } catch (error) {
    throw withContext(`import ${path}`, error);
  } finally {
    hold[Symbol.dispose]();
  }
}

function rootfsConfig({ platform }: Pick<ImportDeps, 'platform'>, settings: RootfsSettings, diffId: Digest): string {
  const { user, env, entrypoint, cmd, workdir, stopSignal, labels } = settings;
  // Fields that are undefined are not written at all.
  const config: ImageExecutionConfig = {
    User: user,
    Env: env,
    Entrypoint: entrypoint,
    Cmd: cmd,
    WorkingDir: workdir,
    StopSignal: stopSignal,
    Labels: labels,
  };
  return JSON.stringify({
    architecture: platform.architecture,
    os: platform.os,
    config,
    rootfs: { type: 'layers', diff_ids: [diffId] },
    history: [{ created_by: 'gantry image import --rootfs' }],
  });
}
