import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { Op } from '../../../lib/abort.ts';
import { execFile } from '../../../lib/exec.ts';
import { internal, withContext } from '../../../lib/errors.ts';
import { decompressed, sniffFile, type Compression } from '../compression.ts';
import { digestOf, type Digest } from '../digest.ts';
import { decodeImageConfig, type ImageExecutionConfig } from '../image-config.ts';
import { computeDiffId } from '../verify-diff-id.ts';
import { notAnImage, type ImportDeps, type ImportedImage } from './import-deps.ts';
import { PlainLayerSource, plainImageLayer, type PlainLayer } from './plain-layers.ts';

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
  readonly isDirectory: boolean;
  readonly name: string;
  readonly settings: RootfsSettings;
}

/**
 * Makes an image of one layer. The same files and settings give the same image id: nothing of the time or the place of
 * the import goes into it.
 */
export async function importRootfs(op: Op, deps: ImportDeps, request: RootfsRequest): Promise<ImportedImage> {
  const { path, isDirectory } = request;
  if (isDirectory) {
    return await deps.ingest.withFile('rootfs', async (archive) => {
      await archiveDirectory(op, path, archive);
      return await importLayer(op, deps, request, archive, 'none');
    });
  }
  const content = await sniffFile(path);
  if (content === undefined)
    throw notAnImage(path, 'a root file system is a folder or a tar archive, plain, gzip or zstd');
  return await importLayer(op, deps, request, path, content === 'tar' ? 'none' : content);
}

async function importLayer(
  op: Op,
  deps: ImportDeps,
  { name, path, settings }: RootfsRequest,
  archive: string,
  compression: Compression,
): Promise<ImportedImage> {
  let diffId: Digest;
  try {
    diffId = await computeDiffId(op, archive, compression);
  } catch (error) {
    throw withContext(path, error);
  }
  const layer: PlainLayer = {
    diffId,
    sizeBytes: (await stat(archive)).size,
    open: () => (compression === 'none' ? createReadStream(archive) : decompressed(archive, compression, path)),
  };
  const configText = rootfsConfig(deps, settings, diffId);
  const image = {
    id: digestOf(configText),
    manifestDigest: undefined,
    configText,
    config: decodeImageConfig(configText),
    layers: [plainImageLayer(layer)],
  };
  return { image: await deps.bringIn(new PlainLayerSource([layer]), image, [name]), names: [name] };
}

function rootfsConfig({ platform }: Pick<ImportDeps, 'platform'>, settings: RootfsSettings, diffId: Digest): string {
  const config: ImageExecutionConfig = {
    ...(settings.user === undefined ? {} : { User: settings.user }),
    ...(settings.env === undefined ? {} : { Env: settings.env }),
    ...(settings.entrypoint === undefined ? {} : { Entrypoint: settings.entrypoint }),
    ...(settings.cmd === undefined ? {} : { Cmd: settings.cmd }),
    ...(settings.workdir === undefined ? {} : { WorkingDir: settings.workdir }),
    ...(settings.stopSignal === undefined ? {} : { StopSignal: settings.stopSignal }),
    ...(settings.labels === undefined ? {} : { Labels: settings.labels }),
  };
  return JSON.stringify({
    architecture: platform.architecture,
    os: platform.os,
    config,
    rootfs: { type: 'layers', diff_ids: [diffId] },
    history: [{ created_by: 'gantry image import --rootfs' }],
  });
}

/**
 * GNU tar, because it knows hard links, devices, sparse files and capabilities. Sorted and without process ids, access
 * and change times, so that the same folder is the same archive. Other file systems mounted in it stay out.
 */
async function archiveDirectory(op: Op, directory: string, archive: string): Promise<void> {
  const result = await execFile(op, 'tar', [
    '--create',
    `--file=${archive}`,
    `--directory=${directory}`,
    '--numeric-owner',
    '--sort=name',
    '--format=posix',
    '--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime',
    '--xattrs',
    '--xattrs-include=user.*',
    '--xattrs-include=security.capability',
    '--one-file-system',
    '--force-local',
    '.',
  ]);
  const said = result.stderr.trim().split('\n').slice(-3).join('; ').slice(0, 400);
  // 1: a file changed while it was read. What is in the archive is whole all the same.
  if (result.code === 1) op.log.warn({ directory, said }, 'a root file system changed while it was read');
  else if (result.code !== 0)
    throw internal(`${directory}: tar: ${said === '' ? `exit code ${String(result.code)}` : said}`);
}
