import { createWriteStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import type { Op } from '../../../lib/abort.ts';
import { GantryError, invalidArgument } from '../../../lib/errors.ts';
import { decompressed, sniffFile } from '../compression.ts';
import { localError } from '../ingest.ts';
import { formatReference, parseReference } from '../reference.ts';
import { importDockerArchive } from './docker-archive.ts';
import { DirectoryTree, TarTree, type FileTree } from './file-tree.ts';
import { notAnImage, type ImportDeps, type ImportedImage } from './import-deps.ts';
import { importOciLayout } from './oci-layout.ts';
import { importRootfs, type RootfsDeps, type RootfsSettings } from './rootfs.ts';
import { TarIndex } from './tar-index.ts';

export type ImportRequest =
  | {
      /** What the path is, is seen by looking. */
      readonly kind: 'archive';
      readonly path: string;
      /** Takes the place of the name in the archive, if it holds one image; completes bare tags otherwise. */
      readonly name?: string;
    }
  | {
      /** A folder or an archive of a root file system becomes an image of one layer. */
      readonly kind: 'rootfs';
      readonly path: string;
      readonly name: string;
      readonly settings?: RootfsSettings;
    };

/** Throws InvalidArgument for what is no image, NotFound for a missing path or platform, DataLoss for damage. */
export async function importImages(op: Op, deps: RootfsDeps, request: ImportRequest): Promise<ImportedImage[]> {
  const { path } = request;
  const name = request.name === undefined ? undefined : formatReference(parseReference(request.name));
  if (name?.includes('@')) throw invalidArgument(`import needs a name with a tag, not ${name}`);
  const found = await stat(path).catch((error: unknown) => {
    throw localError(path, error);
  });
  // Opening a pipe would wait for a writer, and a device may never end.
  if (!found.isFile() && !found.isDirectory()) throw invalidArgument(`${path}: is neither a file nor a folder`);
  if (request.kind === 'rootfs') {
    return [
      await importRootfs(op, deps, {
        path,
        sizeBytes: found.isFile() ? found.size : 0,
        name: formatReference(parseReference(request.name)),
        settings: request.settings ?? {},
      }),
    ];
  }
  if (found.isDirectory()) return await importTree(op, deps, new DirectoryTree(path), request.name);
  return await importArchive(op, deps, path, request.name);
}

async function importArchive(
  op: Op,
  deps: ImportDeps,
  path: string,
  name: string | undefined,
): Promise<ImportedImage[]> {
  const content = await sniffFile(path);
  if (content === 'tar') {
    return await importTree(op, deps, new TarTree(path, path, await TarIndex.read(path, path)), name);
  }
  if (content === undefined) throw notAnImage(path, 'it is no tar archive, compressed (gzip, zstd) or not');
  return await deps.ingest.withFile('archive', async (plain) => {
    try {
      await pipeline(decompressed(path, content, path), createWriteStream(plain, { mode: 0o600 }), {
        signal: op.signal,
      });
    } catch (error) {
      throw error instanceof GantryError || op.signal.aborted ? error : localError(plain, error);
    }
    if ((await sniffFile(plain)) !== 'tar') throw notAnImage(path, `there is no tar archive in the ${content} data`);
    return await importTree(op, deps, new TarTree(path, plain, await TarIndex.read(plain, path)), name);
  });
}

/** Newer `docker save` writes both forms into one archive; `manifest.json` is the one that has all the names. */
async function importTree(
  op: Op,
  deps: ImportDeps,
  tree: FileTree,
  name: string | undefined,
): Promise<ImportedImage[]> {
  if (await tree.has('manifest.json')) return await importDockerArchive(deps, tree, name);
  if (await tree.has('index.json')) return await importOciLayout(op, deps, tree, name);
  throw notAnImage(
    tree.path,
    'neither manifest.json nor index.json is in it (a root file system is imported with --rootfs)',
  );
}
