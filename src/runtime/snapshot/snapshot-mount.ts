import type { MountInfo } from '../../linux/mountinfo.ts';

/** In the text of an option a backslash stands before a colon or another backslash that is part of a path. */
const FIRST_LOWER = /^lowerdir\+?=((?:[^:\\]|\\.)*)\/upper(?::|$)/;

/**
 * The folder of the snapshot that an overlay shows, by the overlay's own folders, wherever our data lay when it was mounted: a writable
 * one writes there, a read-only one has it above its layers. Undefined for everything else.
 */
export function snapshotOfMount({
  fsType,
  superOptions,
}: Pick<MountInfo, 'fsType' | 'superOptions'>): string | undefined {
  if (fsType !== 'overlay') return undefined;
  const upper = superOptions.find((option) => option.startsWith('upperdir='));
  if (upper !== undefined) {
    const folder = /^upperdir=(.*)\/upper$/.exec(upper)?.[1];
    return folder !== undefined && superOptions.includes(`workdir=${folder}/work`) ? folder : undefined;
  }
  const lower = superOptions.find((option) => option.startsWith('lowerdir'));
  return lower === undefined ? undefined : FIRST_LOWER.exec(lower)?.[1]?.replaceAll(/\\(.)/g, '$1');
}
