import { gzipSync, zstdCompressSync } from 'node:zlib';
import { pack } from 'tar-stream';
import { digestOf } from '../../../src/runtime/image/digest.ts';
import {
  DOCKER_CONFIG,
  DOCKER_MANIFEST,
  OCI_CONFIG,
  OCI_INDEX,
  OCI_MANIFEST,
} from '../../../src/runtime/image/media-types.ts';

export type LayerForm = 'none' | 'gzip' | 'zstd';

export interface TestBlob {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly data: Buffer;
}

export interface TestLayer extends TestBlob {
  readonly diffId: string;
  readonly tar: Buffer;
}

export interface TestImage {
  readonly id: string;
  readonly manifest: TestBlob;
  readonly config: TestBlob;
  readonly layers: readonly TestLayer[];
}

const MEDIA_TYPES: Readonly<Record<LayerForm, string>> = {
  none: 'application/vnd.oci.image.layer.v1.tar',
  gzip: 'application/vnd.oci.image.layer.v1.tar+gzip',
  zstd: 'application/vnd.oci.image.layer.v1.tar+zstd',
};

export async function tarOf(files: Readonly<Record<string, string | Buffer>>): Promise<Buffer> {
  const archive = pack();
  for (const [name, content] of Object.entries(files)) archive.entry({ name, mtime: new Date(0) }, content);
  archive.finalize();
  const chunks: Buffer[] = [];
  for await (const chunk of archive) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

export function blobOf(mediaType: string, content: string | Buffer): TestBlob {
  const data = Buffer.from(content);
  return { mediaType, digest: digestOf(data), size: data.length, data };
}

export async function layerOf(content: string | Buffer, form: LayerForm = 'gzip'): Promise<TestLayer> {
  const tar = await tarOf({ file: content });
  const data = form === 'none' ? tar : form === 'gzip' ? gzipSync(tar) : zstdCompressSync(tar);
  return { ...blobOf(MEDIA_TYPES[form], data), diffId: digestOf(tar), tar };
}

export interface ImageOptions {
  readonly docker?: boolean;
  readonly platform?: { readonly os: string; readonly architecture: string; readonly variant?: string };
  readonly config?: Readonly<Record<string, unknown>>;
}

export function imageOf(layers: readonly TestLayer[], options: ImageOptions = {}): TestImage {
  const { docker = false, platform = hostTestPlatform(), config = { Cmd: ['/run'] } } = options;
  const configBlob = blobOf(
    docker ? DOCKER_CONFIG : OCI_CONFIG,
    JSON.stringify({
      ...platform,
      config,
      rootfs: { type: 'layers', diff_ids: layers.map((layer) => layer.diffId) },
    }),
  );
  const mediaType = docker ? DOCKER_MANIFEST : OCI_MANIFEST;
  const manifest = blobOf(
    mediaType,
    JSON.stringify({
      schemaVersion: 2,
      mediaType,
      config: descriptor(configBlob),
      layers: layers.map((layer) => ({
        ...descriptor(layer),
        ...(docker ? { mediaType: 'application/vnd.docker.image.rootfs.diff.tar.gzip' } : {}),
      })),
    }),
  );
  return { id: configBlob.digest, manifest, config: configBlob, layers };
}

export function indexOf(entries: readonly { image: TestImage; platform?: unknown; annotations?: unknown }[]): TestBlob {
  return blobOf(
    OCI_INDEX,
    JSON.stringify({
      schemaVersion: 2,
      mediaType: OCI_INDEX,
      manifests: entries.map(({ image, platform, annotations }) => ({
        ...descriptor(image.manifest),
        ...(platform === undefined ? {} : { platform }),
        ...(annotations === undefined ? {} : { annotations }),
      })),
    }),
  );
}

export function descriptor({ mediaType, digest, size }: TestBlob): Record<string, unknown> {
  return { mediaType, digest, size };
}

export function hostTestPlatform(): { os: string; architecture: string } {
  return { os: 'linux', architecture: process.arch === 'arm64' ? 'arm64' : 'amd64' };
}
