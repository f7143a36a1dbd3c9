import { invalidArgument, withContext } from '../../../lib/errors.ts';
import { decompressedStream, sniff } from '../compression.ts';
import { LARGEST_DOCUMENT_BYTES, wrongDigest } from '../content-source.ts';
import { digestOf, type Digest } from '../digest.ts';
import { decodeImageConfig } from '../image-config.ts';
import type { NewImage } from '../image-records.ts';
import { formatReference, parseReference } from '../reference.ts';
import { requirePlatform } from '../resolve-image.ts';
import type { FileTree } from './file-tree.ts';
import { notAnImage, type ImportDeps, type ImportedImage } from './import-deps.ts';
import { PlainLayerSource, plainImageLayer, type PlainLayer } from './plain-layers.ts';

interface ArchivedImage {
  readonly config: string;
  readonly tags: readonly string[];
  readonly layers: readonly string[];
}

/** What `docker save` writes: `manifest.json` names each image's configuration, tags and layers. */
export async function importDockerArchive(
  deps: ImportDeps,
  tree: FileTree,
  name: string | undefined,
): Promise<ImportedImage[]> {
  const images = decodeList((await tree.read('manifest.json', LARGEST_DOCUMENT_BYTES)).toString('utf8'), tree.path);
  if (name !== undefined && images.length > 1) {
    throw invalidArgument(`${tree.path}: holds ${String(images.length)} images, which cannot all be called ${name}`);
  }
  const imported: ImportedImage[] = [];
  for (const archived of images) {
    // A digest says what an image is: an archive cannot claim one.
    const names = (name === undefined ? archived.tags : [name])
      .map((tag) => formatReference(parseReference(tag)))
      .filter((tag) => !tag.includes('@'));
    try {
      const { image, source } = await readImage(deps, tree, archived);
      imported.push({ image: await deps.bringIn(source, image, names), names });
    } catch (error) {
      throw withContext(`${tree.path}: ${names[0] ?? archived.config}`, error);
    }
  }
  return imported;
}

async function readImage(
  deps: ImportDeps,
  tree: FileTree,
  archived: ArchivedImage,
): Promise<{ image: NewImage; source: PlainLayerSource }> {
  const configText = (await tree.read(archived.config, LARGEST_DOCUMENT_BYTES)).toString('utf8');
  const id = digestOf(configText);
  const claimed = /([0-9a-f]{64})(?:\.json)?$/.exec(archived.config)?.[1];
  if (claimed !== undefined && id !== `sha256:${claimed}`) {
    throw wrongDigest('configuration', `sha256:${claimed}` as Digest, id);
  }
  const config = decodeImageConfig(configText);
  requirePlatform(config, deps.platform);
  if (config.diffIds.length !== archived.layers.length) {
    throw notAnImage(
      tree.path,
      `${String(archived.layers.length)} layers in manifest.json, ${String(config.diffIds.length)} in its configuration`,
    );
  }
  const layers: PlainLayer[] = [];
  for (const [i, diffId] of config.diffIds.entries()) {
    const file = archived.layers[i] ?? '';
    // Sizes are asked now, so that a layer that is missing is told before anything is unpacked.
    layers.push({ diffId, sizeBytes: await tree.size(file), open: () => openPlain(tree, file) });
  }
  return {
    image: { id, manifestDigest: undefined, configText, config, layers: layers.map(plainImageLayer) },
    source: new PlainLayerSource(layers),
  };
}

/** Layers are plain in most such archives; some tools put them in as they were pulled. */
async function* openPlain(tree: FileTree, file: string): AsyncGenerator<Buffer> {
  const head: Buffer[] = [];
  for await (const chunk of tree.stream(file)) {
    head.push(chunk);
    break;
  }
  const found = sniff(Buffer.concat(head));
  if (found === 'gzip' || found === 'zstd') yield* decompressedStream(tree.stream(file), found, `layer ${file}`);
  else yield* tree.stream(file);
}

function decodeList(text: string, path: string): ArchivedImage[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw notAnImage(path, 'manifest.json is not JSON');
  }
  if (!Array.isArray(value) || value.length === 0) throw notAnImage(path, 'manifest.json lists no images');
  return value.map((entry: unknown): ArchivedImage => {
    const { Config, RepoTags, Layers } = (entry ?? {}) as { Config?: unknown; RepoTags?: unknown; Layers?: unknown };
    if (typeof Config !== 'string') throw notAnImage(path, 'manifest.json has an image without Config');
    return { config: Config, tags: texts(RepoTags, 'RepoTags', path), layers: texts(Layers, 'Layers', path) };
  });
}

function texts(value: unknown, what: string, path: string): string[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value) || !value.every((item) => typeof item === 'string')) {
    throw notAnImage(path, `${what} in manifest.json is not a list of texts`);
  }
  return value;
}
