import assert from 'node:assert/strict';
import { look } from './leak-probes.ts';
import type { Findings, LeakRoots } from './leak-probes.ts';

export type { LeakRoots } from './leak-probes.ts';

/** What is gone a moment later is no leak: the last steps of a pod's end run after its object is gone. */
const SETTLE_MS = 30_000;
const LOOK_AGAIN_MS = 100;
/** What a Gantry has for all its pods goes a moment after the last of them, which may be after the first look; so does what takes it away. */
const MAY_GO: Readonly<Record<string, RegExp>> = {
  links: /^/,
  'iptables rules': /^/,
  processes: /^\d+ ip6?tables /,
};

/**
 * Compares what a Gantry holds outside itself before and after a test: processes, mounts, network namespaces, addresses,
 * links, iptables rules, cgroups, claims, files.
 *
 *     const leaks = await LeakCheck.begin(root.leakRoots());
 *     … run a pod, delete it …
 *     await leaks.assertNone();
 */
export class LeakCheck {
  readonly #roots: LeakRoots;
  readonly #before: Findings;

  private constructor(roots: LeakRoots, before: Findings) {
    this.#roots = roots;
    this.#before = before;
  }

  static async begin(roots: LeakRoots): Promise<LeakCheck> {
    return new LeakCheck(roots, await look(roots));
  }

  /**
   * Passes as soon as everything is as it was, and fails with a list of what came and what went when it is not so within
   * `settleMs`. `only` limits it to some of the probes, by name.
   */
  async assertNone(options: { readonly settleMs?: number; readonly only?: readonly string[] } = {}): Promise<void> {
    const deadline = Date.now() + (options.settleMs ?? SETTLE_MS);
    for (;;) {
      const difference = compare(this.#before, await look(this.#roots), options.only);
      if (difference === '') return;
      if (Date.now() >= deadline) assert.fail(`not as it was before:\n${difference}`);
      await new Promise((next) => setTimeout(next, LOOK_AGAIN_MS));
    }
  }
}

/** Empty when equal; else a block for each probe that differs, `+` for what came and `-` for what went. */
export function compare(before: Findings, after: Findings, only?: readonly string[]): string {
  const blocks: string[] = [];
  for (const [probe, now] of after) {
    if (only !== undefined && !only.includes(probe)) continue;
    const then = before.get(probe) ?? [];
    const came = now.filter((line) => !then.includes(line)).map((line) => `  + ${line}`);
    const gone = then.filter((line) => !now.includes(line) && MAY_GO[probe]?.test(line) !== true);
    const went = gone.map((line) => `  - ${line}`);
    if (came.length + went.length > 0) blocks.push([`${probe}:`, ...came, ...went].join('\n'));
  }
  return blocks.join('\n');
}
