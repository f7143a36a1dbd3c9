import { createHash } from 'node:crypto';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { tarOf } from './tar.ts';

/** Images that exist only in memory, for a test's registry and for archives to import. */

export interface Blob {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly data: Buffer;
}

/** Its own bytes are the compressed ones. */
export interface Layer extends Blob {
  readonly diffId: string;
  readonly tar: Buffer;
}

export interface Image {
  /** The config's digest: what CRI calls the image's id. */
  readonly id: string;
  readonly manifest: Blob;
  readonly config: Blob;
  readonly layers: readonly Layer[];
}

export type Compression = 'none' | 'gzip' | 'zstd';

export interface Platform {
  readonly os: string;
  readonly architecture: string;
  readonly variant?: string;
}

const OCI = 'application/vnd.oci.image';
const DOCKER = 'application/vnd.docker';
const SUFFIX: Readonly<Record<Compression, string>> = { none: '', gzip: '+gzip', zstd: '+zstd' };

export function digestOf(data: string | Buffer): string {
  return `sha256:${createHash('sha256').update(data).digest('hex')}`;
}

export function blobOf(mediaType: string, content: string | Buffer): Blob {
  const data = Buffer.from(content);
  return { mediaType, digest: digestOf(data), size: data.length, data };
}

/** A layer of one file, called `file`. */
export async function layerOf(content: string | Buffer, compression: Compression = 'gzip'): Promise<Layer> {
  return layerOfTar(await tarOf({ file: content }), compression);
}

export function layerOfTar(tar: Buffer, compression: Compression = 'gzip'): Layer {
  const data = compression === 'none' ? tar : compression === 'gzip' ? gzipSync(tar) : zstdCompressSync(tar);
  return { ...blobOf(`${OCI}.layer.v1.tar${SUFFIX[compression]}`, data), diffId: digestOf(tar), tar };
}

/** The layer with other bytes, under the digest that these have: what was damaged before it was pushed. */
export function damagedLayer(layer: Layer, data: string | Buffer): Layer {
  return { ...layer, ...blobOf(layer.mediaType, data) };
}

export interface ImageOptions {
  /** Docker's schema 2 in place of OCI's formats. It knows gzip only. */
  readonly docker?: boolean;
  readonly platform?: Platform;
  /** `Entrypoint`, `Cmd`, `Env`, `User`, `WorkingDir`, `StopSignal` … */
  readonly config?: Readonly<Record<string, unknown>>;
}

export function imageOf(layers: readonly Layer[], options: ImageOptions = {}): Image {
  const { docker = false, platform = hostPlatform(), config = { Cmd: ['/run'] } } = options;
  const configBlob = blobOf(
    docker ? `${DOCKER}.container.image.v1+json` : `${OCI}.config.v1+json`,
    JSON.stringify({
      ...platform,
      config,
      rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) },
      history: layers.map(() => ({ created_by: 'test' })),
    }),
  );
  const mediaType = docker ? `${DOCKER}.distribution.manifest.v2+json` : `${OCI}.manifest.v1+json`;
  const layerType = docker ? { mediaType: `${DOCKER}.image.rootfs.diff.tar.gzip` } : {};
  const manifest = blobOf(
    mediaType,
    JSON.stringify({
      schemaVersion: 2,
      mediaType,
      config: descriptorOf(configBlob),
      layers: layers.map((layer) => ({ ...descriptorOf(layer), ...layerType })),
    }),
  );
  return { id: configBlob.digest, manifest, config: configBlob, layers };
}

export interface IndexEntry {
  readonly image: Image;
  readonly platform?: Platform;
  readonly annotations?: Readonly<Record<string, string>>;
}

export function indexOf(entries: readonly IndexEntry[]): Blob {
  const mediaType = `${OCI}.index.v1+json`;
  const manifests = entries.map(({ image, ...more }) => ({ ...descriptorOf(image.manifest), ...more }));
  return blobOf(mediaType, JSON.stringify({ schemaVersion: 2, mediaType, manifests }));
}

export function descriptorOf({ mediaType, digest, size }: Blob): Pick<Blob, 'mediaType' | 'digest' | 'size'> {
  return { mediaType, digest, size };
}

export function hostPlatform(): Platform {
  return { os: 'linux', architecture: process.arch === 'arm64' ? 'arm64' : 'amd64' };
}
