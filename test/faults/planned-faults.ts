import { writeSync } from 'node:fs';
import { GantryError, invalidArgument } from '../../src/lib/errors.ts';
import { FAULT_POINTS, type FaultPoint, type FaultPoints } from '../../src/lib/fault-points.ts';

interface Plan {
  readonly point: string;
  readonly action: string;
  /** It happens when this reaches 0. */
  left: number;
}

export const ALL_POINTS: readonly FaultPoint[] = Object.entries(FAULT_POINTS).flatMap(([verb, steps]) =>
  steps.map((step) => `${verb}/${step}` as FaultPoint),
);

/**
 * What a test wants to happen: `point[:n][:kill|kill-after=ms|error|delay=ms]`, several with commas between. At the n-th time (default: the
 * first) that the point is reached the process is killed (default, or when it has stood there for so long), or the step fails, or it
 * takes so long.
 */
export class PlannedFaults implements FaultPoints {
  readonly #plans: readonly Plan[];

  constructor(text: string) {
    this.#plans = text
      .split(',')
      .filter((one) => one !== '')
      .map(parsePlan);
  }

  reach(point: FaultPoint): Promise<void> | undefined {
    const action = this.#due(point);
    if (action === undefined) return undefined;
    if (action === 'error') return Promise.reject(new GantryError('Unavailable', `planned failure at ${point}`));
    if (action === 'kill') killSelf(point);
    const [what = '', ms] = action.split('=');
    return new Promise<void>((next) => setTimeout(next, Number(ms))).then(() => {
      if (what === 'kill-after') killSelf(point);
    });
  }

  pass(point: FaultPoint): void {
    if (this.#due(point) === 'kill') killSelf(point);
  }

  #due(point: FaultPoint): string | undefined {
    const plan = this.#plans.find((one) => one.point === point && one.left > 0);
    if (plan === undefined) return undefined;
    plan.left--;
    return plan.left === 0 ? plan.action : undefined;
  }
}

function parsePlan(text: string): Plan {
  const [, point = '', times = '1', action = 'kill'] =
    /^([^:]+)(?::(\d+))?(?::(kill|error|(?:delay|kill-after)=\d+))?$/.exec(text) ?? [];
  if (!ALL_POINTS.some((known) => known === point)) throw invalidArgument(`${text}: there is no such fault point`);
  return { point, action, left: Number(times) };
}

/** What the last words begin with. */
export const KILLED_AT = 'killed at ';

/** As the kernel does it: nothing in this process has a say. Written at once, not when the loop comes to it. */
function killSelf(point: FaultPoint): never {
  writeSync(1, `${KILLED_AT}${point}\n`);
  process.kill(process.pid, 'SIGKILL');
  throw new Error('survived SIGKILL');
}
