import type { Op } from '../../../lib/abort.ts';
import { GantryError, invalidArgument, isKind, messageOf, withContext } from '../../../lib/errors.ts';
import { LARGEST_DOCUMENT_BYTES, tooLarge, verify, wrongDigest, type ContentSource } from '../content-source.ts';
import { algorithmOf, hexOf, type Digest } from '../digest.ts';
import { decodeManifest, type Descriptor, type IndexEntry } from '../manifest.ts';
import { OCI_INDEX } from '../media-types.ts';
import { formatReference, parseReference, repositoryOf } from '../reference.ts';
import { chooseEntry, resolveImage } from '../resolve-image.ts';
import type { FileTree } from './file-tree.ts';
import { notAnImage, type ImportDeps, type ImportedImage } from './import-deps.ts';
import { copyHashed } from './plain-layers.ts';

/** An OCI image layout, as a folder or in an archive: `index.json` and `blobs/<algorithm>/<hex>`. */
export async function importOciLayout(
  op: Op,
  deps: ImportDeps,
  tree: FileTree,
  name: string | undefined,
): Promise<ImportedImage[]> {
  const index = decodeManifest((await tree.read('index.json', LARGEST_DOCUMENT_BYTES)).toString('utf8'), OCI_INDEX);
  if (index.kind !== 'index') throw notAnImage(tree.path, 'its index.json is no index');
  const groups = groupByName(index.entries);
  if (groups.length === 0) throw notAnImage(tree.path, 'its index.json lists no images');
  const source = new LayoutSource(tree);
  const imported: ImportedImage[] = [];
  const skipped: unknown[] = [];
  for (const { refName, entries } of groups) {
    const names = namesFor(refName, name, groups.length, tree.path);
    try {
      const entry = entries.length === 1 && entries[0] !== undefined ? entries[0] : chooseEntry(entries, deps.platform);
      const text = (await source.read(op, entry)).toString('utf8');
      const image = await resolveImage(
        op,
        source,
        { text, digest: entry.digest, contentType: entry.mediaType },
        deps.platform,
      );
      const digests = names.map((tag) => `${repositoryOf(tag)}@${entry.digest}`);
      imported.push({ image: await deps.bringIn(source, image, [...names, ...digests]), names });
    } catch (error) {
      const failure = withContext(`${tree.path}: ${refName ?? entries[0]?.digest ?? 'image'}`, error);
      // Layouts of build tools hold images for many machines: ours must be among them, not all must be ours.
      if (!isKind(error, 'NotFound') || failure.details['reason'] !== 'platform') throw failure;
      op.log.warn({ error: messageOf(failure) }, 'an image of the layout is for another platform and is left out');
      skipped.push(failure);
    }
  }
  if (imported.length === 0) throw skipped[0];
  return imported;
}

interface Group {
  readonly refName: string | undefined;
  readonly entries: readonly IndexEntry[];
}

/** Entries of one name are one image for several platforms; those without a name are alternatives if all say for what. */
function groupByName(entries: readonly IndexEntry[]): Group[] {
  const groups = new Map<string | undefined, IndexEntry[]>();
  for (const entry of entries) {
    const refName =
      entry.annotations['io.containerd.image.name'] ??
      entry.annotations['org.opencontainers.image.ref.name'] ??
      undefined;
    const group = groups.get(refName);
    if (group === undefined) groups.set(refName, [entry]);
    else group.push(entry);
  }
  return [...groups].flatMap(([refName, group]): Group[] => {
    const alternatives = refName !== undefined || group.every((entry) => entry.platform !== undefined);
    return alternatives ? [{ refName, entries: group }] : group.map((entry) => ({ refName, entries: [entry] }));
  });
}

/** A reference name may be a whole reference or a bare tag (`latest`), which needs a repository from the caller. */
function namesFor(refName: string | undefined, name: string | undefined, images: number, path: string): string[] {
  const isBareTag = refName !== undefined && !/[/:@]/.test(refName);
  if (name !== undefined) {
    if (images === 1) return [formatReference(parseReference(name))];
    if (isBareTag)
      return [formatReference(parseReference(`${repositoryOf(formatReference(parseReference(name)))}:${refName}`))];
    throw invalidArgument(`${path}: holds ${String(images)} images, which cannot all be called ${name}`);
  }
  if (refName === undefined || isBareTag) return [];
  const full = formatReference(parseReference(refName));
  return full.includes('@') ? [] : [full];
}

class LayoutSource implements ContentSource {
  readonly #tree: FileTree;

  constructor(tree: FileTree) {
    this.#tree = tree;
  }

  async read(_op: Op, descriptor: Descriptor): Promise<Buffer> {
    if (descriptor.sizeBytes > LARGEST_DOCUMENT_BYTES) throw tooLarge('content', descriptor.digest);
    const data = await this.#tree.read(blobName(descriptor.digest), LARGEST_DOCUMENT_BYTES);
    verify(data, descriptor, 'content');
    return data;
  }

  async save(op: Op, descriptor: Descriptor, path: string, onBytes: (bytes: number) => void): Promise<void> {
    const { digest, sizeBytes } = descriptor;
    const name = blobName(digest);
    const there = await this.#tree.size(name);
    if (there !== sizeBytes) {
      throw new GantryError('DataLoss', `layer ${digest}: truncated: ${String(there)} of ${String(sizeBytes)} bytes`, {
        details: { reason: 'truncated' },
      });
    }
    const actual = await copyHashed(op, this.#tree.stream(name), path, digest, onBytes);
    if (actual !== digest) throw wrongDigest('layer', digest, actual);
  }
}

function blobName(digest: Digest): string {
  return `blobs/${algorithmOf(digest)}/${hexOf(digest)}`;
}
