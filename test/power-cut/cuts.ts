import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../soak/random.ts';
import { Machine } from './machine.ts';

const LAUNCH = new URL('../../bin/launch', import.meta.url).pathname;
const WORKS_AT_MOST_MS = 12_000;

export interface CutsOptions {
  /** On a disk; kept. */
  readonly dir: string;
  readonly instance: string;
  readonly cuts: number;
  readonly random: Random;
  /** Gets each line that a boot's look prints. */
  readonly progress: (line: string) => void;
}

/** Works in a {@link Machine}, cuts its power at a random moment, boots and looks, again and again; then ends everything. Returns the violations. */
export async function cutAgainAndAgain({ dir, instance, cuts, random, progress }: CutsOptions): Promise<string[]> {
  const at = { bootIdFile: join(dir, 'boot-id'), cgroupParent: `/gantry-${instance}` };
  const script = [LAUNCH, 'scripts/power-cut.ts', dir, '--instance', instance];
  for (let boot = 0; ; boot++) {
    const isLast = boot === cuts;
    await using machine = await Machine.boot(at, isLast ? [...script, '--end'] : script);
    const lines: string[] = [];
    const awaited = isLast ? 'nothing is left' : 'working';
    for (let line = await machine.line(); ; line = await machine.line()) {
      if (line === undefined) {
        const wrong = lines.filter((text) => /^(VIOLATION|left)/.test(text));
        return wrong.length > 0
          ? wrong
          : [`boot ${String(boot)} ended before it said '${awaited}': ${lines.join('\n')}`];
      }
      lines.push(line);
      progress(`boot ${String(boot)}: ${line}`);
      if (line === awaited) break;
    }
    if (isLast) return [];
    await sleep(random.between(0, WORKS_AT_MOST_MS));
    await machine.cut();
  }
}
