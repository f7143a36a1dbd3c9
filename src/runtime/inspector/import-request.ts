import type { ImageImport } from '../../cri/inspector/inspector.ts';
import type { ImportRequest } from '../image/import/import-images.ts';

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
