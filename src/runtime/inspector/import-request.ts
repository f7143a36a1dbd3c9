import type { Op } from '../../lib/abort.ts';
import type { ImportRequest } from '../image/import/import-images.ts';
import type { ImageRecord } from '../image/image-record.ts';
import type { ImageStore } from '../image/image-store.ts';
import type { ImageImport } from '../../lib/image-import.ts';

/** What is asked for from outside, as the image store takes it. */
export function importRequest({ path, source, name, ...settings }: ImageImport): ImportRequest {
  if (source !== 'rootfs') return { kind: 'archive', path, ...(name === undefined ? {} : { name }) };
  const { workingDir, ...others } = settings;
  return {
    kind: 'rootfs',
    path,
    name: name ?? '',
    settings: { ...others, ...(workingDir === undefined ? {} : { workdir: workingDir }) },
  };
}

/** Takes them, and answers each image once, however many names it has. */
export async function importImages(
  op: Op,
  images: Pick<ImageStore, 'import'>,
  request: ImageImport,
  onProgress?: Parameters<ImageStore['import']>[2],
): Promise<ImageRecord[]> {
  const imported = await images.import(op, importRequest(request), onProgress);
  return [...new Map(imported.map(({ image }) => [image.id, image])).values()];
}
