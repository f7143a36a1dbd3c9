import type { Random } from './random.ts';

/** A container whose end and output are known before it runs. */
export interface ContainerPlan {
  readonly name: string;
  readonly kind: 'own' | 'trap' | 'grace';
  /** For `/bin/sh -c`. */
  readonly script: string;
  readonly exitCode: number;
  readonly stdout: readonly string[];
  readonly stderr: readonly string[];
  /** Present: it is stopped, so long after it has said {@link READY}. */
  readonly stop?: { readonly afterMs: number; readonly graceSeconds: number };
  /** Whether it is removed by itself, or with its sandbox. */
  readonly removeItself: boolean;
}

/** What a container that waits for a signal says when its trap is set. */
export const READY = 'ready';
/** What one that does not end on SIGTERM says instead, as often as it is told to. */
export const IGNORED = 'not yet';

/** A machine that is twenty times slower runs a trap within this time, too. */
const LONG_GRACE_S = 120;
const SIGKILLED = 137;
const PAUSE_S = '0.1';
const WAIT_FOR_EVER = `while :; do sleep ${PAUSE_S}; done`;

export function planContainer(random: Random, name: string): ContainerPlan {
  const removeItself = random.chance(0.5);
  const kind = random.pick<ContainerPlan['kind']>(['own', 'own', 'own', 'trap', 'trap', 'grace']);
  const stop = (graceSeconds: number): ContainerPlan['stop'] => ({ afterMs: random.between(0, 1_500), graceSeconds });
  const output = planOutput(random, name);
  switch (kind) {
    case 'own': {
      // 137, 143 and 255 of one's own are codes like any other.
      const exitCode = random.pick([0, 0, 1, 2, 42, 126, 127, 137, 143, 255, random.between(3, 125)]);
      const tail = random.chance(0.3) ? `tail of ${name}` : '';
      return {
        name,
        kind,
        script: `${output.script}${tail === '' ? '' : `printf '${tail}'; `}exit ${exitCode}`,
        exitCode,
        stdout: tail === '' ? output.stdout : [...output.stdout, tail],
        stderr: output.stderr,
        removeItself,
      };
    }
    case 'trap': {
      const exitCode = random.pick([0, 3, 130, 143, random.between(1, 255)]);
      return {
        name,
        kind,
        script: `trap 'echo bye; exit ${exitCode}' TERM; ${output.script}echo ${READY}; ${WAIT_FOR_EVER}`,
        exitCode,
        stdout: [...output.stdout, READY, 'bye'],
        stderr: output.stderr,
        stop: stop(LONG_GRACE_S),
        removeItself,
      };
    }
    case 'grace':
      return {
        name,
        kind,
        script: `trap 'echo ${IGNORED}' TERM; ${output.script}echo ${READY}; ${WAIT_FOR_EVER}`,
        exitCode: SIGKILLED,
        stdout: [...output.stdout, READY],
        stderr: output.stderr,
        stop: stop(random.between(1, 3)),
        removeItself,
      };
  }
}

interface Output {
  readonly script: string;
  readonly stdout: readonly string[];
  readonly stderr: readonly string[];
}

/** Some lines with pauses between them, or many at once; now and then one on stderr as well. */
function planOutput(random: Random, name: string): Output {
  const burst = random.chance(0.2);
  const lines = burst ? random.between(100, 400) : random.between(0, 12);
  const pause = !burst && random.chance(0.7) ? `sleep ${PAUSE_S}; ` : '';
  const alsoStderr = random.chance(0.3);
  const words = 'x'.repeat(random.between(0, 80));
  const line = (index: number): string => `${name} line ${index} ${words}`.trimEnd();
  const all = Array.from({ length: lines }, (_, index) => line(index));
  const body = `echo ${line(0).replace('line 0', 'line $i')}; ${alsoStderr ? 'echo err $i >&2; ' : ''}${pause}`;
  return {
    script: lines === 0 ? '' : `i=0; while [ $i -lt ${lines} ]; do ${body}i=$((i+1)); done; `,
    stdout: all,
    stderr: alsoStderr ? all.map((_, index) => `err ${index}`) : [],
  };
}
