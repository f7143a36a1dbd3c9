import type { Op } from '../../lib/abort.ts';
import { jsonObject } from './plugin-error.ts';
import { runPlugin } from './plugin-runner.ts';

/** In which the question itself is put. */
const ASKED_IN = '1.0.0';

/**
 * The versions of CNI that a plug-in says it speaks (CNI specification, VERSION). Undefined when it says nothing of the kind. It may hang: the
 * caller sets the limit.
 */
export async function askVersions(
  op: Op,
  binDirs: readonly string[],
  type: string,
): Promise<readonly string[] | undefined> {
  const config = { cniVersion: ASKED_IN };
  const nobody = { containerId: '', netns: '', ifName: '', args: {} };
  const { code, stdout } = await runPlugin(op, binDirs, { type, command: 'VERSION', config, ...nobody });
  const said: unknown = code === 0 ? jsonObject(stdout)?.['supportedVersions'] : undefined;
  if (!Array.isArray(said) || said.length === 0) return undefined;
  return said.every((version) => typeof version === 'string') ? said : undefined;
}
