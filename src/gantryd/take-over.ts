import { messageOf } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';

export interface TakeOverParts {
  /** Every object of the runtime has been looked at once. */
  readonly recovered: Promise<void>;
  /** Of the agent; resolves when every pod has somebody who looks after it. */
  start(): Promise<void>;
}

/** Between "the API answers" and "pods are looked after": whoever asks too early is told what is waited for. */
export class TakeOver {
  readonly #log: Log;
  #whyNot: string | undefined = 'the runtime is still looking at what was there before gantryd was started';

  constructor(log: Log) {
    this.#log = log;
  }

  /** First the runtime has to know what there is: the agent would make anew what it does not find. */
  begin(parts: TakeOverParts): void {
    parts.recovered
      .then(() => {
        this.#whyNot = 'the agent is still looking at the pods that it takes over';
        return parts.start();
      })
      .then(() => {
        this.#whyNot = undefined;
      })
      .catch((error: unknown) => {
        this.#whyNot = `the agent could not start: ${messageOf(error)}`;
        this.#log.error({ error: messageOf(error) }, 'the agent could not start');
      });
  }

  get isDone(): boolean {
    return this.#whyNot === undefined;
  }

  /** For /readyz: undefined when pods are looked after. */
  notReady(): string | undefined {
    return this.#whyNot;
  }
}
