import type { Op } from './abort.ts';

/** Is told of the work that a run waits for, which may go on when the run has given up waiting. */
export type GoesOn<T = void> = (work: Promise<T>) => void;

interface Flight<T> {
  readonly outcome: Promise<T>;
  /** What goes on since the run has given up. */
  rest?: Promise<T>;
}

/**
 * At most one run per key at a time: whoever asks while it runs gets that run's outcome. A run that has given up waiting is over only when
 * what it waited for has ended: whoever asks until then gets the outcome of that.
 */
export class SingleFlight<T = void> {
  readonly #flights = new Map<string, Flight<T>>();

  run(key: string, work: (goesOn: GoesOn<T>) => Promise<T>): Promise<T> {
    const present = this.#flights.get(key);
    if (present !== undefined) return present.rest ?? present.outcome;
    let going: Promise<T> | undefined;
    const outcome = work((part) => {
      going = part;
      const ended = (): void => void (going = undefined);
      part.then(ended, ended);
    });
    const flight: Flight<T> = { outcome };
    this.#flights.set(key, flight);
    const over = (): void => void this.#flights.delete(key);
    const leave = (): void => {
      flight.rest = going;
      if (going === undefined) over();
      else going.then(over, over);
    };
    outcome.then(leave, leave);
    return outcome;
  }
}

/** A lane's step that is told of: the lane gives its caller up when the step's budget has passed, and the step may go on. */
export function untilEnded<T>(goesOn: GoesOn<T>, step: (op: Op) => Promise<T>): (op: Op) => Promise<T> {
  return (op) => {
    const work = step(op);
    goesOn(work);
    return work;
  };
}
