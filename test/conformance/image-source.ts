import { access } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { DIGEST_IMAGE } from './left-out.ts';

/** Where the suite's images come from. */
export type ImageSource =
  | { readonly kind: 'registries' }
  /** Every registry's images, without the registry's name. */
  | { readonly kind: 'mirror'; readonly url: string }
  /** An OCI layout on disk, whose index has them by those names. */
  | { readonly kind: 'layout'; readonly folder: string };

/** `http://…` is a mirror, anything else a folder. Throws, for people, what is wrong with it. */
export async function imageSource(mirror: string | undefined): Promise<ImageSource> {
  if (mirror === undefined) return { kind: 'registries' };
  if (/^https?:\/\//.test(mirror)) return { kind: 'mirror', url: mirror.replace(/\/+$/, '') };
  const folder = resolve(mirror);
  await access(join(folder, 'index.json')).catch(() => {
    throw new Error(`--mirror ${mirror} is neither http://HOST:PORT nor the folder of an OCI layout`);
  });
  return { kind: 'layout', folder };
}

/** Whether the image is there that one spec pulls by a digest of the suite's own. Throws when a mirror does not answer. */
export async function hasDigestImage(source: ImageSource): Promise<boolean> {
  const { repository, digest } = DIGEST_IMAGE;
  switch (source.kind) {
    case 'registries':
      return true;
    case 'mirror': {
      const url = `${source.url}/v2/${repository}/manifests/${digest}`;
      const answer = await fetch(url, { method: 'HEAD' }).catch((cause: unknown) => {
        throw new Error(`the mirror ${source.url} does not answer`, { cause });
      });
      return answer.ok;
    }
    case 'layout':
      return await access(join(source.folder, 'blobs', ...digest.split(':'))).then(
        () => true,
        () => false,
      );
  }
}
