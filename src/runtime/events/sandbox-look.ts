import type { Clock, Timer } from '../../lib/clock.ts';
import { messageOf } from '../../lib/errors.ts';
import type { RuntimeContext } from '../context.ts';
import { decideSandbox } from '../recovery/decide-sandbox.ts';
import { lookAtSandbox } from '../recovery/look-at-sandbox.ts';
import { markNotReady } from '../recovery/recover-sandbox.ts';

const LOOK_EVERY_MS = 10_000;

/** Nothing tells us when somebody takes a pin off: so each READY sandbox is looked at now and then. */
export class SandboxLook {
  readonly #rt: RuntimeContext;
  readonly #clock: Clock;
  #timer: Timer | undefined;
  #closed = false;

  constructor(rt: RuntimeContext) {
    this.#rt = rt;
    this.#clock = rt.clock;
  }

  start(): void {
    this.#timer = this.#clock.after(LOOK_EVERY_MS, () => {
      void this.look().finally(() => {
        if (!this.#closed) this.start();
      });
    });
  }

  async look(): Promise<void> {
    for (const { meta } of this.#rt.sandboxes.list()) {
      const record = this.#rt.sandboxes.get(meta.id);
      // One that is being stopped loses its pins because we take them off.
      if (record?.status.state.kind !== 'ready' || record.status.stopping !== undefined) continue;
      try {
        const found = await lookAtSandbox(this.#rt, record);
        const decision = decideSandbox(record.status, found);
        const now = this.#rt.sandboxes.get(meta.id);
        if (decision.kind === 'not-ready' && now?.status === record.status)
          markNotReady(this.#rt, meta.id, decision.why);
      } catch (error) {
        this.#rt.log.warn({ sandboxId: meta.id, error: messageOf(error) }, 'a sandbox could not be looked at');
      }
    }
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }
}
