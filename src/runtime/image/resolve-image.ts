import type { Op } from '../../lib/abort.ts';
import { GantryError, notFound } from '../../lib/errors.ts';
import type { ContentSource } from './content-source.ts';
import type { Digest } from './digest.ts';
import { decodeImageConfig, type OciImageConfig } from './image-config.ts';
import { decodeManifest, type Descriptor, type IndexEntry, type Manifest } from './manifest.ts';
import { choosePlatform, formatPlatform, platformDistance, type Platform } from './platform.ts';

/** A layer of one image: the blob to get and what must come out of it. */
export interface ImageLayer {
  readonly blob: Descriptor;
  readonly diffId: Digest;
}

/** All that must be known of an image before its layers are fetched. */
export interface ResolvedImage {
  /** Digest of the configuration: the image's id. */
  readonly id: Digest;
  readonly manifestDigest: Digest;
  readonly configText: string;
  readonly config: OciImageConfig;
  /** From the bottom up. */
  readonly layers: readonly ImageLayer[];
}

/** An index may point to an index; nobody needs more of it than this. */
const DEEPEST_INDEX = 3;

/**
 * Follows a manifest to the image for this machine. Throws NotFound that names the platforms there are when none of
 * them runs here, InvalidArgument for what is no image, DataLoss for content that is not what its digest says.
 */
export async function resolveImage(
  op: Op,
  source: ContentSource,
  root: { readonly text: string; readonly digest: Digest; readonly contentType?: string | undefined },
  host: Platform,
): Promise<ResolvedImage> {
  let manifest = decodeManifest(root.text, root.contentType);
  let digest = root.digest;
  for (let depth = 0; manifest.kind === 'index'; depth++) {
    if (depth >= DEEPEST_INDEX) {
      throw new GantryError('InvalidArgument', 'not an image: an index within an index within an index');
    }
    const entry = chooseEntry(manifest.entries, host);
    const text = (await source.read(op, entry)).toString('utf8');
    manifest = decodeManifest(text, entry.mediaType);
    digest = entry.digest;
  }
  return await readConfig(op, source, manifest, digest, host);
}

async function readConfig(
  op: Op,
  source: ContentSource,
  manifest: Extract<Manifest, { kind: 'image' }>,
  manifestDigest: Digest,
  host: Platform,
): Promise<ResolvedImage> {
  const configText = (await source.read(op, manifest.config)).toString('utf8');
  const config = decodeImageConfig(configText);
  requirePlatform(config, host);
  if (config.diffIds.length !== manifest.layers.length) {
    throw new GantryError(
      'InvalidArgument',
      `not an image: ${String(manifest.layers.length)} layers in its manifest, ${String(config.diffIds.length)} in its configuration`,
      { details: { reason: 'not-an-image' } },
    );
  }
  const layers = manifest.layers.map((blob, i) => ({ blob, diffId: config.diffIds[i] ?? blob.digest }));
  return { id: manifest.config.digest, manifestDigest, configText, config, layers };
}

/** The entry for this machine. Undefined platforms count only where no entry has one: then there is nothing to choose by. */
export function chooseEntry(entries: readonly IndexEntry[], host: Platform): IndexEntry {
  const chosen = choosePlatform(
    host,
    entries.map((entry) => entry.platform),
  );
  const entry = chosen === undefined ? undefined : entries[chosen];
  if (entry !== undefined) return entry;
  const [only] = entries;
  if (only !== undefined && entries.length === 1 && only.platform === undefined) return only;
  throw wrongPlatform(
    host,
    entries.flatMap(({ platform }) => (platform === undefined || platform.os === 'unknown' ? [] : [platform])),
  );
}

/** Refuses an image whose configuration says that it is for another machine. One that says nothing is let through. */
export function requirePlatform({ os, architecture, variant }: OciImageConfig, host: Platform): void {
  if (architecture === undefined || os === undefined) return;
  const platform = variant === undefined ? { os, architecture } : { os, architecture, variant };
  // Builders write their own machine's micro-architecture there; an index is where variants are chosen by.
  const fits = platformDistance(host, platform) ?? platformDistance(host, { os, architecture });
  if (fits === undefined) throw wrongPlatform(host, [platform]);
}

function wrongPlatform(host: Platform, available: readonly Platform[]): GantryError {
  const names = [...new Set(available.map(formatPlatform))].toSorted();
  return notFound(
    `no image for ${formatPlatform(host)}: ${names.length === 0 ? 'it is for no platform at all' : `it is there for ${names.join(', ')}`}`,
    { details: { reason: 'platform', available: names } },
  );
}
