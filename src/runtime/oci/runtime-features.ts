import os from 'node:os';
import type { Op } from '../../lib/abort.ts';
import { execFile } from '../../linux/exec.ts';
import { kernelAtLeast } from './kernel-version.ts';
import type { OciRuntimeLocation } from './oci-runtime.ts';

/** What an OCI runtime can do on this kernel that a configuration may ask for. */
export interface OciFeatures {
  /** The mount option `rro`, which holds for what is mounted below, too. */
  readonly recursiveReadOnlyMounts: boolean;
  /** A user namespace that it is told to join, and mounts with other ids. */
  readonly userNamespaces: boolean;
}

export const NO_FEATURES: OciFeatures = { recursiveReadOnlyMounts: false, userNamespaces: false };

/** mount_setattr(2) came with it. */
const RECURSIVE_ATTRIBUTES_SINCE = '5.12';

/** The runtime's own word (`features` of the OCI specification). One that does not know the question is not asked for anything new. */
export async function readFeatures(op: Op, { path, root }: OciRuntimeLocation): Promise<OciFeatures> {
  const { code, stdout } = await execFile(op, path, ['--root', root, 'features']);
  return featuresOf(code === 0 ? stdout : '', os.release());
}

/** As far as it is read, and not believed. */
interface Said {
  readonly mountOptions?: unknown;
  readonly linux?: {
    readonly namespaces?: unknown;
    readonly mountExtensions?: { readonly idmap?: { readonly enabled?: unknown } };
  };
}

/** Pure. */
export function featuresOf(text: string, kernel: string): OciFeatures {
  let said: Said | null = null;
  try {
    said = JSON.parse(text) as Said | null;
  } catch {
    // Older ones print a usage.
  }
  const { mountOptions, linux } = said ?? {};
  return {
    recursiveReadOnlyMounts:
      Array.isArray(mountOptions) && mountOptions.includes('rro') && kernelAtLeast(kernel, RECURSIVE_ATTRIBUTES_SINCE),
    userNamespaces:
      Array.isArray(linux?.namespaces) &&
      linux.namespaces.includes('user') &&
      linux.mountExtensions?.idmap?.enabled === true,
  };
}
