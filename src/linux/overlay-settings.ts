import { errnoOf, GantryError, messageOf } from '../lib/errors.ts';
import { errnoError } from './errno.ts';

export interface OverlayRequest {
  /** The top one first, as the kernel's `lowerdir` reads. At least one; absolute paths. */
  readonly lowerDirs: readonly string[];
  /** Both or neither: without them the mount is read-only. */
  readonly upperDir?: string;
  readonly workDir?: string;
  readonly target: string;
  /** A file of the user namespace whose ids the lower directories' files are to have: for a kernel that takes layers one by one. */
  readonly userNamespace?: string;
  /** overlay's own options: `volatile`, `index=off`, `metacopy=off` … */
  readonly options?: readonly string[];
}

/** One word of an overlay's configuration; one without a value is a flag. */
export interface OverlaySetting {
  readonly key: string;
  readonly value?: string;
  /** The lower directory that it names. */
  readonly layer?: string;
}

/** Pure. In the order in which the kernel is to have them. */
export function overlaySettings({
  lowerDirs,
  upperDir,
  workDir,
  options = [],
}: Omit<OverlayRequest, 'target'>): OverlaySetting[] {
  const settings: OverlaySetting[] = lowerDirs.map((layer) => ({ key: 'lowerdir+', value: layer, layer }));
  if (upperDir !== undefined && workDir !== undefined) {
    settings.push({ key: 'upperdir', value: escapeBackslash(upperDir) });
    settings.push({ key: 'workdir', value: escapeBackslash(workDir) });
  }
  for (const option of options) {
    const [key = '', ...value] = option.split('=');
    settings.push(value.length === 0 ? { key } : { key, value: value.join('=') });
  }
  return settings;
}

/** The kernel's own words say which layer or option it was; the errno alone does not. */
export function overlayError(
  error: unknown,
  { lowerDirs, target }: Pick<OverlayRequest, 'lowerDirs'> & { readonly target?: string },
  said: readonly string[],
  layer?: string,
): GantryError {
  const words = said.map((line) => line.replace(/^[ewi] /, '')).join('; ');
  const where = target === undefined ? '' : ` on ${target}`;
  const which = layer === undefined ? '' : `: layer ${layer}`;
  const what = `mount overlay of ${String(lowerDirs.length)} layers${where}${which}`;
  const suffix = words === '' ? '' : `: ${words}`;
  const errno = errnoOf(error);
  if (errno === undefined) return new GantryError('Unknown', `${what}: ${messageOf(error)}${suffix}`, { cause: error });
  const plain = errnoError(errno, what);
  return new GantryError(plain.kind, `${plain.message}${suffix}`, { cause: error, details: plain.details });
}

/** As the kernel reads the names of directories. */
export function escapeBackslash(path: string): string {
  return path.replaceAll('\\', '\\\\');
}
