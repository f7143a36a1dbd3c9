import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Op } from '../lib/abort.ts';
import { writeFileAtomic } from '../lib/atomic-file.ts';
import { failedPrecondition, messageOf } from '../lib/errors.ts';
import { detectCgroups } from '../linux/cgroups.ts';
import { isSystemdHere, SystemdUnits } from '../linux/systemd-units.ts';
import type { CgroupDriver } from '../runtime/settings.ts';
import { decideDriver } from './cgroup-choice.ts';
import type { GantryConfig } from './config.ts';

/** Of which it is known who makes the cgroups; the parent is a path below the cgroup mount. */
export type SettledConfig = GantryConfig & { readonly cgroupDriver: CgroupDriver };

const ASK_MS = 10_000;
/** In the root folder. */
const NOTE = 'cgroup-driver';

/**
 * The configuration with the driver that it comes to on this root folder. Throws FailedPrecondition where that is systemd and systemd cannot: it
 * is not for a start that comes too early, before its D-Bus say, to change what a kubelet relies on.
 */
export async function settleDriver(op: Op, config: GantryConfig): Promise<SettledConfig> {
  const { cgroupDriver: choice, cgroupParent, root } = config;
  const before = await noted(join(root, NOTE));
  const { driver, parent } = decideDriver({ choice, cgroupParent, ...(before === undefined ? {} : { before }) });
  const lacks = driver === 'systemd' ? await whatSystemdLacks(op) : undefined;
  if (lacks !== undefined) {
    const wayOut =
      choice === 'auto' && before === driver ? `; ${root} has had it: --cgroup-driver cgroupfs changes that` : '';
    throw failedPrecondition(`--cgroup-driver systemd: ${lacks}${wayOut}`);
  }
  return { ...config, cgroupDriver: driver, cgroupParent: parent };
}

/** So that the next start, of a later version perhaps, comes to the same. The root folder is ours. */
export async function noteDriver({ root, cgroupDriver }: SettledConfig): Promise<void> {
  const path = join(root, NOTE);
  if ((await noted(path)) !== cgroupDriver) await writeFileAtomic(path, `${cgroupDriver}\n`);
}

async function noted(path: string): Promise<CgroupDriver | undefined> {
  const text = (await readFile(path, 'utf8').catch(() => '')).trim();
  return text === 'cgroupfs' || text === 'systemd' ? text : undefined;
}

async function whatSystemdLacks({ signal, log }: Op): Promise<string | undefined> {
  if (!(await isSystemdHere())) return 'systemd does not run this machine';
  const { mode } = await detectCgroups();
  if (mode !== 'v2') return `it needs cgroup v2, and this machine has ${mode}`;
  try {
    const asking = AbortSignal.any([signal, AbortSignal.timeout(ASK_MS)]);
    await new SystemdUnits().version({ signal: asking, log });
    return undefined;
  } catch (error) {
    return `systemd cannot be asked (is dbus installed?): ${messageOf(error)}`;
  }
}
