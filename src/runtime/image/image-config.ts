import { GantryError } from '../../lib/errors.ts';
import { isDigest, type Digest } from './digest.ts';

/** The defaults that an image brings for the containers made from it. Field names as in the OCI image specification. */
export interface ImageExecutionConfig {
  readonly User?: string;
  readonly Env?: readonly string[];
  readonly Entrypoint?: readonly string[];
  readonly Cmd?: readonly string[];
  readonly WorkingDir?: string;
  readonly StopSignal?: string;
  readonly Labels?: Readonly<Record<string, string>>;
  readonly ExposedPorts?: Readonly<Record<string, unknown>>;
  readonly Volumes?: Readonly<Record<string, unknown>>;
}

/** An image's configuration blob: the part of it that Gantry reads, each field checked. */
export interface OciImageConfig {
  readonly architecture?: string;
  readonly os?: string;
  readonly variant?: string;
  readonly created?: string;
  readonly config: ImageExecutionConfig;
  /** Layers from the bottom up, as digests of the uncompressed archives. */
  readonly diffIds: readonly Digest[];
}

/** More layers than any kernel mounts: a number that only a hostile image has. */
const MOST_LAYERS = 1000;

function notAnImage(why: string): GantryError {
  return new GantryError('InvalidArgument', `not an image: ${why}`, { details: { reason: 'not-an-image' } });
}

/** Throws InvalidArgument (`not an image: …`) for anything that is not an image's configuration. */
export function decodeImageConfig(text: string): OciImageConfig {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw notAnImage('its configuration is not JSON');
  }
  const root = recordOf(value, 'its configuration');
  const rootfs = recordOf(root['rootfs'], "its configuration's rootfs");
  const ids = rootfs['diff_ids'] ?? [];
  if (!Array.isArray(ids) || !ids.every(isDigest)) throw notAnImage('rootfs.diff_ids is not a list of digests');
  if (ids.length > MOST_LAYERS) throw notAnImage(`it has ${String(ids.length)} layers`);
  return {
    architecture: optionalString(root, 'architecture'),
    os: optionalString(root, 'os'),
    variant: optionalString(root, 'variant'),
    created: optionalString(root, 'created'),
    config: executionConfig(root['config']),
    diffIds: ids,
  };
}

function executionConfig(value: unknown): ImageExecutionConfig {
  if (value === undefined || value === null) return {};
  const config = recordOf(value, 'config');
  return withoutUndefined({
    User: optionalString(config, 'User'),
    Env: optionalStrings(config, 'Env'),
    Entrypoint: optionalStrings(config, 'Entrypoint'),
    Cmd: optionalStrings(config, 'Cmd'),
    WorkingDir: optionalString(config, 'WorkingDir'),
    StopSignal: optionalString(config, 'StopSignal'),
    Labels: optionalLabels(config),
    ExposedPorts: optionalRecord(config, 'ExposedPorts'),
    Volumes: optionalRecord(config, 'Volumes'),
  });
}

type Json = Readonly<Record<string, unknown>>;

function recordOf(value: unknown, what: string): Json {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw notAnImage(`${what} is not an object`);
  return value as Json;
}

// Docker writes null where it means "not set", everywhere.

function optionalString(from: Json, key: string): string | undefined {
  const value = from[key] ?? undefined;
  if (value === undefined || value === '') return undefined;
  if (typeof value !== 'string') throw notAnImage(`${key} is not text`);
  if (value.includes('\0')) throw notAnImage(`${key} contains a NUL`);
  return value;
}

function optionalStrings(from: Json, key: string): readonly string[] | undefined {
  const value = from[key] ?? undefined;
  if (value === undefined) return undefined;
  // A shell-form command of very old images.
  const list: unknown = typeof value === 'string' ? [value] : value;
  if (!Array.isArray(list) || !list.every((item) => typeof item === 'string' && !item.includes('\0'))) {
    throw notAnImage(`${key} is not a list of texts`);
  }
  return list.length === 0 ? undefined : (list as string[]);
}

function optionalRecord(from: Json, key: string): Json | undefined {
  const value = from[key] ?? undefined;
  return value === undefined ? undefined : recordOf(value, key);
}

function optionalLabels(from: Json): Readonly<Record<string, string>> | undefined {
  const labels = optionalRecord(from, 'Labels');
  if (labels === undefined) return undefined;
  return Object.fromEntries(
    Object.entries(labels).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

function withoutUndefined<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as T;
}
