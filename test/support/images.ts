import { createHash } from 'node:crypto';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { busyboxRootfs } from './busybox.ts';
import { tarOf } from './tar.ts';
import type { TarMember } from './tar.ts';

/** Images that exist only in memory, for a test's registry and for archives to import. */

export interface Blob {
  readonly mediaType: string;
  readonly digest: string;
  readonly data: Buffer;
}

export interface Layer {
  readonly diffId: string;
  readonly blob: Blob;
}

export interface Image {
  /** The config's digest: what CRI calls the image's id. */
  readonly id: string;
  readonly manifest: Blob;
  readonly config: Blob;
  readonly layers: readonly Layer[];
}

export type Compression = 'none' | 'gzip' | 'zstd';
/** Docker's schema 2 knows gzip only. */
export type ImageFormat = 'oci' | 'docker';

const OCI = 'application/vnd.oci.image';
const DOCKER = 'application/vnd.docker';
const SUFFIX: Readonly<Record<Compression, string>> = { none: '', gzip: '+gzip', zstd: '+zstd' };

export function digestOf(data: string | Buffer): string {
  return `sha256:${createHash('sha256').update(data).digest('hex')}`;
}

export function blobOf(mediaType: string, content: string | Buffer): Blob {
  const data = Buffer.from(content);
  return { mediaType, digest: digestOf(data), data };
}

export async function layerOf(members: readonly TarMember[], compression: Compression = 'gzip'): Promise<Layer> {
  return layerOfTar(await tarOf(members), compression);
}

export function layerOfTar(tar: Buffer, compression: Compression = 'gzip'): Layer {
  const data = compression === 'none' ? tar : compression === 'gzip' ? gzipSync(tar) : zstdCompressSync(tar);
  return { diffId: digestOf(tar), blob: blobOf(`${OCI}.layer.v1.tar${SUFFIX[compression]}`, data) };
}

/** A layer whose blob has the digest that the manifest names and is no gzip from the middle on. */
export function corruptGzipLayer(layer: Layer): Layer {
  const data = Buffer.from(layer.blob.data);
  data.fill(0xa5, Math.floor(data.length / 2));
  return { diffId: layer.diffId, blob: blobOf(layer.blob.mediaType, data) };
}

export interface Platform {
  readonly os: string;
  readonly architecture: string;
  readonly variant?: string;
}

export function hostPlatform(): Platform {
  return { os: 'linux', architecture: process.arch === 'arm64' ? 'arm64' : 'amd64' };
}

export interface ImageOptions {
  readonly format?: ImageFormat;
  readonly platform?: Platform;
  /** `Entrypoint`, `Cmd`, `Env`, `User`, `WorkingDir`, `StopSignal` … */
  readonly config?: Readonly<Record<string, unknown>>;
}

export function imageOf(layers: readonly Layer[], options: ImageOptions = {}): Image {
  const { format = 'oci', platform = hostPlatform(), config = {} } = options;
  const docker = format === 'docker';
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
  const layerType = `${DOCKER}.image.rootfs.diff.tar.gzip`;
  const manifest = blobOf(
    mediaType,
    JSON.stringify({
      schemaVersion: 2,
      mediaType,
      config: descriptorOf(configBlob),
      layers: layers.map(({ blob }) => ({ ...descriptorOf(blob), ...(docker ? { mediaType: layerType } : {}) })),
    }),
  );
  return { id: configBlob.digest, manifest, config: configBlob, layers };
}

/** A manifest list (Docker) or an index (OCI). */
export function indexOf(
  images: readonly { readonly image: Image; readonly platform: Platform }[],
  format: ImageFormat = 'oci',
): Blob {
  const mediaType = format === 'docker' ? `${DOCKER}.distribution.manifest.list.v2+json` : `${OCI}.index.v1+json`;
  const manifests = images.map(({ image, platform }) => ({ ...descriptorOf(image.manifest), platform }));
  return blobOf(mediaType, JSON.stringify({ schemaVersion: 2, mediaType, manifests }));
}

export function descriptorOf({ mediaType, digest, data }: Blob): { mediaType: string; digest: string; size: number } {
  return { mediaType, digest, size: data.length };
}

/** An image of this machine's busybox whose shell and applets work in a container. Needs busybox, not root. */
export async function busyboxImage(
  options: ImageOptions & { readonly compression?: Compression; readonly extra?: readonly TarMember[] } = {},
): Promise<Image> {
  const layers = [await layerOf(await busyboxRootfs(), options.compression)];
  if (options.extra !== undefined) layers.push(await layerOf(options.extra, options.compression));
  return imageOf(layers, { ...options, config: { Env: ['PATH=/bin'], Cmd: ['sh'], ...options.config } });
}

/** What `docker save` writes. Layers are uncompressed in it. */
export async function dockerArchive(image: Image, tars: readonly Buffer[], ...repoTags: string[]): Promise<Buffer> {
  const name = (digest: string): string => digest.slice('sha256:'.length);
  const layers = image.layers.map(({ diffId }) => `${name(diffId)}/layer.tar`);
  const manifest = [{ Config: `${name(image.id)}.json`, RepoTags: repoTags, Layers: layers }];
  return await tarOf([
    { name: `${name(image.id)}.json`, content: image.config.data },
    ...layers.map((layer, at) => ({ name: layer, content: tars[at] ?? Buffer.alloc(0) })),
    { name: 'manifest.json', content: JSON.stringify(manifest) },
  ]);
}

/** The files of an OCI layout, by path; {@link ociArchive} is a tar of them. */
export function ociLayout(image: Image, name: string): Map<string, Buffer> {
  const annotations = { 'org.opencontainers.image.ref.name': name };
  const index = { schemaVersion: 2, manifests: [{ ...descriptorOf(image.manifest), annotations }] };
  const files = new Map<string, Buffer>([
    ['oci-layout', Buffer.from('{"imageLayoutVersion":"1.0.0"}')],
    ['index.json', Buffer.from(JSON.stringify(index))],
  ]);
  for (const { digest, data } of [image.manifest, image.config, ...image.layers.map(({ blob }) => blob)]) {
    files.set(`blobs/${digest.replace(':', '/')}`, data);
  }
  return files;
}

export async function ociArchive(image: Image, name: string): Promise<Buffer> {
  return await tarOf([...ociLayout(image, name)].map(([path, content]) => ({ name: path, content })));
}
