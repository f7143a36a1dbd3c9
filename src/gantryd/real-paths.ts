import { realpath } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { errnoOf } from '../lib/errors.ts';
import { DEFAULT_ROOT, type GantryConfig, type PartialConfig } from './config.ts';

/**
 * However the root folder is spelled, by a link or with `/./`, it is one Gantry: instance id and cgroup parent are derived from its name.
 * To be called before the configuration is resolved.
 */
export async function withRealRoot(given: PartialConfig): Promise<PartialConfig> {
  const { root } = given;
  if (typeof root !== 'string' || !isAbsolute(root)) return given;
  const real = await realPathOf(root);
  return { ...given, root: real === (await realPathOf(DEFAULT_ROOT)) ? DEFAULT_ROOT : real };
}

/** The folders of our own by the names that the kernel has for what is mounted in them. */
export async function withRealFolders(config: GantryConfig): Promise<GantryConfig> {
  const { root, state, podsDir } = config;
  return {
    ...config,
    root: await realPathOf(root),
    state: await realPathOf(state),
    podsDir: await realPathOf(podsDir),
  };
}

/** Of what is not there yet: where it will be. What cannot be found out is left as it is: making the folder says why. */
async function realPathOf(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    const above = dirname(path);
    if (above === path || !['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return path;
    return join(await realPathOf(above), basename(path));
  }
}
