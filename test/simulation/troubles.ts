import { unavailable } from '../../src/lib/errors.ts';
import type { Random } from '../soak/random.ts';
import type { Asked, Fate } from './schedule.ts';

/** What one container is like, and what goes wrong with it. Drawn before it is made. */
export interface Temper {
  /** Its command ends by itself so long after it was let go. Absent: never. */
  readonly endsAfterMs: number | undefined;
  /** On SIGTERM. Absent: it ignores that. */
  readonly obeysAfterMs: number | undefined;
  readonly code: number;
  /** So long after its death conmon has the exit file written. */
  readonly fileAfterMs: number;
  /** A pidfd can tell how it ended. */
  readonly kernelTells: boolean;
  /** There is a descriptor left for a pidfd on it. */
  readonly watchable: boolean;
  /** SIGKILL does nothing, as in state D. */
  undying: boolean;
  /** What hangs or fails, and how often still. */
  readonly trouble: Map<string, { kind: 'hangs' | 'fails' | 'fails after'; times: number }>;
  /** Nothing of its own is out of order: then it has to be prompt whatever happens to others. */
  readonly sound: boolean;
  /** What happens to it while it runs, and when. */
  readonly mishap:
    { readonly kind: 'monitor killed' | 'monitor stopped' | 'frozen'; readonly afterMs: number } | undefined;
}

const MAY_HANG = [
  'create',
  'start',
  'delete: oci',
  'unmount',
  'mount',
  'delete: cgroup',
  'network del',
  'remove folder',
  'read kept exit',
] as const;
const MAY_FAIL = [
  ...MAY_HANG,
  'signal',
  'thaw',
  'kill all',
  'state',
  'alive',
  'view',
  'read exit',
  'forget exit',
  'snapshot',
  'remove snapshot',
  'unpin',
  'list folder',
] as const;

export class Troubles {
  readonly #random: Random;
  readonly #now: () => number;
  readonly #tempers = new Map<string, Temper>();
  /** A signal could not be sent to the first process of a container. */
  onSignalFailed: (id: string) => void = () => undefined;
  /** From then on nothing goes wrong any more. */
  healed = false;

  constructor(random: Random, now: () => number) {
    this.#random = random;
    this.#now = now;
  }

  temperOf(id: string): Temper {
    let temper = this.#tempers.get(id);
    if (temper === undefined) this.#tempers.set(id, (temper = this.#draw()));
    return temper;
  }

  all(): ReadonlyMap<string, Temper> {
    return this.#tempers;
  }

  /** What a subject asks for is done, fails or hangs as its temper has it. */
  decide({ what, subject }: Asked): Fate {
    if (this.healed || subject === '') return 'done';
    const trouble = this.temperOf(subject).trouble.get(what);
    if (trouble === undefined || trouble.times === 0) return 'done';
    trouble.times--;
    if (what === 'signal') this.onSignalFailed(subject);
    if (trouble.kind === 'fails') return 'failed';
    if (trouble.kind === 'fails after') return 'failed-after';
    return { heldUntilMs: this.#now() + this.#random.between(500, 25_000), stubborn: this.#random.chance(0.3) };
  }

  fail({ what, subject }: Asked): Error {
    return unavailable(`${what} of ${subject.slice(0, 8)} failed`);
  }

  #draw(): Temper {
    const random = this.#random;
    const sound = random.chance(0.55);
    const trouble: Temper['trouble'] = new Map();
    if (!sound) {
      for (let left = random.between(0, 3); left > 0; left--) {
        const hangs = random.chance(0.4);
        const what = hangs ? random.pick(MAY_HANG) : random.pick(MAY_FAIL);
        const kind = hangs ? 'hangs' : random.pick(['fails', 'fails after'] as const);
        trouble.set(what, { kind, times: random.between(1, hangs ? 3 : 6) });
      }
    }
    const kinds = ['monitor killed', 'monitor stopped', 'frozen'] as const;
    const mishap =
      sound || !random.chance(0.4) ? undefined : { kind: random.pick(kinds), afterMs: random.between(0, 10_000) };
    return {
      endsAfterMs: random.chance(0.6) ? random.pick([0, 1, random.between(0, 12_000)]) : undefined,
      obeysAfterMs: random.chance(0.7) ? random.pick([0, random.between(0, 3_000)]) : undefined,
      code: random.pick([0, 1, 3, 137, 255, random.between(0, 255)]),
      fileAfterMs: sound
        ? random.between(0, 200)
        : random.pick([0, random.between(0, 1_900), random.between(0, 6_000)]),
      kernelTells: random.chance(0.5),
      watchable: random.chance(0.85),
      undying: !sound && random.chance(0.2),
      trouble,
      sound,
      mishap,
    };
  }
}
