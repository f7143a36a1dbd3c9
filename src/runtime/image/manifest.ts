import { GantryError, notImplemented } from '../../lib/errors.ts';
import { isDigest, type Digest } from './digest.ts';
import {
  isImageConfigType,
  isIndexType,
  isManifestType,
  isSchema1Type,
  layerCompression,
  OCI_INDEX,
  OCI_MANIFEST,
} from './media-types.ts';
import type { Platform } from './platform.ts';

/** A pointer to content: what it is, what it must hash to, how long it must be. */
export interface Descriptor {
  readonly mediaType: string;
  readonly digest: Digest;
  readonly sizeBytes: number;
}

export interface IndexEntry extends Descriptor {
  /** Undefined where the index does not say (attestations and nested indexes often do not). */
  readonly platform?: Platform;
  readonly annotations: Readonly<Record<string, string>>;
}

export type Manifest =
  | { readonly kind: 'index'; readonly mediaType: string; readonly entries: readonly IndexEntry[] }
  | {
      readonly kind: 'image';
      readonly mediaType: string;
      readonly config: Descriptor;
      /** From the bottom up. */
      readonly layers: readonly Descriptor[];
    };

type Json = Readonly<Record<string, unknown>>;

function refuse(why: string): GantryError {
  return new GantryError('InvalidArgument', `not an image: ${why}`, { details: { reason: 'not-an-image' } });
}

/**
 * Reads a manifest or an index. `contentType` is what the transport said, if it said something useful.
 * Throws InvalidArgument (`not an image: …`) and NotImplemented for the obsolete schema 1.
 */
export function decodeManifest(text: string, contentType?: string): Manifest {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw refuse('its manifest is not JSON');
  }
  const json = recordOf(value, 'its manifest');
  const declared = typeof json['mediaType'] === 'string' ? json['mediaType'] : undefined;
  const named = contentType?.split(';')[0]?.trim().toLowerCase();
  if ([declared, named].some((type) => type !== undefined && isSchema1Type(type)) || json['schemaVersion'] === 1) {
    throw notImplemented(
      'the manifest is Docker schema 1, which is obsolete and refused: push the image again with a current tool',
      {
        details: { reason: 'schema1' },
      },
    );
  }
  if (json['schemaVersion'] !== undefined && json['schemaVersion'] !== 2) {
    throw refuse(`its manifest has schema version ${JSON.stringify(json['schemaVersion']).slice(0, 20)}, not 2`);
  }
  // Content that is at once a manifest and an index means two things under one digest: distribution's advisory on
  // ambiguous documents asks clients to refuse it.
  const looksIndex = json['manifests'] !== undefined;
  const looksImage = json['layers'] !== undefined || json['config'] !== undefined;
  if (looksIndex && looksImage) throw refuse('its manifest is also an index');
  const mediaType =
    declared ?? [named].find((type) => type !== undefined && (isIndexType(type) || isManifestType(type)));
  const assumed = mediaType ?? (looksIndex ? OCI_INDEX : OCI_MANIFEST);
  if (isIndexType(assumed)) return decodeIndex(json, assumed);
  if (isManifestType(assumed)) return decodeImage(json, assumed);
  throw refuse(`its manifest has media type ${assumed.slice(0, 100)}`);
}

function decodeIndex(json: Json, mediaType: string): Manifest {
  const list = json['manifests'];
  if (!Array.isArray(list)) throw refuse('its index has no list of manifests');
  const entries = list.map((value: unknown, i): IndexEntry => {
    const what = `manifests[${String(i)}]`;
    const entry = recordOf(value, what);
    const platform = entry['platform'] ?? undefined;
    return {
      ...descriptor(entry, what),
      ...(platform === undefined ? {} : { platform: platformOf(recordOf(platform, `${what}.platform`)) }),
      annotations: annotationsOf(entry),
    };
  });
  return { kind: 'index', mediaType, entries };
}

function decodeImage(json: Json, mediaType: string): Manifest {
  if (json['config'] === undefined) throw refuse('its manifest has no config');
  const config = descriptor(recordOf(json['config'], 'config'), 'config');
  if (!isImageConfigType(config.mediaType)) {
    throw refuse(`its configuration is of type ${config.mediaType.slice(0, 100)} (a chart or another artifact?)`);
  }
  const list = json['layers'] ?? [];
  if (!Array.isArray(list)) throw refuse('layers is not a list');
  const layers = list.map((value: unknown, i) => {
    const what = `layers[${String(i)}]`;
    const layer = descriptor(recordOf(value, what), what);
    if (layer.mediaType.endsWith('+encrypted')) {
      throw notImplemented(`${what} is encrypted, which Gantry does not support`, { details: { reason: 'encrypted' } });
    }
    if (layerCompression(layer.mediaType) === undefined) {
      throw refuse(`${what} is of type ${layer.mediaType.slice(0, 100)}, which is no file system layer`);
    }
    return layer;
  });
  return { kind: 'image', mediaType, config, layers };
}

function descriptor(from: Json, what: string): Descriptor {
  const { mediaType, digest, size } = from;
  if (typeof mediaType !== 'string') throw refuse(`${what} has no mediaType`);
  if (!isDigest(digest)) throw refuse(`${what} has no valid digest`);
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0) throw refuse(`${what} has no valid size`);
  return { mediaType, digest, sizeBytes: size };
}

function platformOf(from: Json): Platform {
  const { os, architecture, variant } = from;
  return {
    os: typeof os === 'string' ? os : '',
    architecture: typeof architecture === 'string' ? architecture : '',
    ...(typeof variant === 'string' && variant !== '' ? { variant } : {}),
  };
}

function annotationsOf(from: Json): Readonly<Record<string, string>> {
  const value = from['annotations'];
  if (typeof value !== 'object' || value === null) return {};
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

function recordOf(value: unknown, what: string): Json {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw refuse(`${what} is not an object`);
  return value as Json;
}
