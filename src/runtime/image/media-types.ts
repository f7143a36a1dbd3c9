import type { Compression } from './compression.ts';

export const DOCKER_MANIFEST = 'application/vnd.docker.distribution.manifest.v2+json';
export const DOCKER_LIST = 'application/vnd.docker.distribution.manifest.list.v2+json';
export const OCI_MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
export const OCI_INDEX = 'application/vnd.oci.image.index.v1+json';
export const OCI_CONFIG = 'application/vnd.oci.image.config.v1+json';
export const DOCKER_CONFIG = 'application/vnd.docker.container.image.v1+json';
export const OCI_LAYER = 'application/vnd.oci.image.layer.v1.tar';

const SCHEMA1 = /^application\/vnd\.docker\.distribution\.manifest\.v1\+(json|prettyjws)$/;

/** What we ask a registry for, best first. */
export const MANIFEST_ACCEPT = [OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, DOCKER_MANIFEST].join(', ');

export function isIndexType(mediaType: string): boolean {
  return mediaType === DOCKER_LIST || mediaType === OCI_INDEX;
}

export function isManifestType(mediaType: string): boolean {
  return mediaType === DOCKER_MANIFEST || mediaType === OCI_MANIFEST;
}

export function isSchema1Type(mediaType: string): boolean {
  return SCHEMA1.test(mediaType);
}

export function isImageConfigType(mediaType: string): boolean {
  return mediaType === OCI_CONFIG || mediaType === DOCKER_CONFIG;
}

const LAYER_TYPES: Readonly<Record<string, Compression>> = {
  'application/vnd.docker.image.rootfs.diff.tar': 'none',
  'application/vnd.docker.image.rootfs.diff.tar.gzip': 'gzip',
  'application/vnd.docker.image.rootfs.diff.tar.zstd': 'zstd',
  'application/vnd.docker.image.rootfs.foreign.diff.tar': 'none',
  'application/vnd.docker.image.rootfs.foreign.diff.tar.gzip': 'gzip',
  'application/vnd.oci.image.layer.v1.tar': 'none',
  'application/vnd.oci.image.layer.v1.tar+gzip': 'gzip',
  'application/vnd.oci.image.layer.v1.tar+zstd': 'zstd',
  'application/vnd.oci.image.layer.nondistributable.v1.tar': 'none',
  'application/vnd.oci.image.layer.nondistributable.v1.tar+gzip': 'gzip',
  'application/vnd.oci.image.layer.nondistributable.v1.tar+zstd': 'zstd',
};

/** The compression that a layer's media type promises; undefined when it is no file system layer. */
export function layerCompression(mediaType: string): Compression | undefined {
  return LAYER_TYPES[mediaType];
}
