import os from 'node:os';
import type { Op } from '../../lib/abort.ts';
import { execFile } from '../../linux/exec.ts';
import { kernelAtLeast } from './kernel-version.ts';
import type { OciRuntimeLocation } from './oci-runtime.ts';

/** What an OCI runtime can do on this kernel that a configuration may ask for. */
export interface OciFeatures {
  /** The mount option `rro`, which holds for what is mounted below, too. */
  readonly recursiveReadOnlyMounts: boolean;
}

export const NO_FEATURES: OciFeatures = { recursiveReadOnlyMounts: false };

/** mount_setattr(2) came with it. */
const RECURSIVE_ATTRIBUTES_SINCE = '5.12';

/** The runtime's own word (`features` of the OCI specification). One that does not know the question is not asked for anything new. */
export async function readFeatures(op: Op, { path, root }: OciRuntimeLocation): Promise<OciFeatures> {
  const { code, stdout } = await execFile(op, path, ['--root', root, 'features']);
  return featuresOf(code === 0 ? stdout : '', os.release());
}

/** Pure. */
export function featuresOf(text: string, kernel: string): OciFeatures {
  let mountOptions: unknown;
  try {
    mountOptions = (JSON.parse(text) as { mountOptions?: unknown } | null)?.mountOptions;
  } catch {
    // Older ones print a usage.
  }
  return {
    recursiveReadOnlyMounts:
      Array.isArray(mountOptions) && mountOptions.includes('rro') && kernelAtLeast(kernel, RECURSIVE_ATTRIBUTES_SINCE),
  };
}
