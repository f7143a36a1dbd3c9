import { ContainerConfig, ContainerState } from '../../src/cri/gen/api.ts';
import { childSignal, type Op } from '../../src/lib/abort.ts';
import { canceled, isKind, messageOf } from '../../src/lib/errors.ts';
import { silentLog } from '../../src/lib/log.ts';
import type { RuntimeService } from '../../src/cri/services.ts';
import type { RuntimeContext } from '../../src/runtime/context.ts';
import type { Random } from '../soak/random.ts';
import type { Daemon } from './daemon.ts';
import { short } from './names.ts';
import type { Schedule } from './schedule.ts';
import type { Troubles } from './troubles.ts';
import type { Verdict } from './verdict.ts';

export interface WorkloadDeps {
  readonly schedule: Schedule;
  readonly random: Random;
  readonly daemon: Daemon;
  readonly troubles: Troubles;
  readonly verdict: Verdict;
}

/** Between two tries of a call that broke off. */
const AGAIN_MS = 300;
/** Beyond grace or nothing: a few dozen answers of up to 50 ms, and a signal that is followed by a look each second. */
const PROMPT_MS = 6_000;

/** What a client does with one container, and with its pod at the end. Broken calls are repeated, as kubelet does. */
export class Workload {
  readonly #deps: WorkloadDeps;

  constructor(deps: WorkloadDeps) {
    this.#deps = deps;
  }

  async container(sandboxId: string, name: string): Promise<void> {
    const { random, schedule, verdict } = this.#deps;
    await schedule.pause(random.between(0, 3_000));
    const config = ContainerConfig.fromPartial({ metadata: { name, attempt: 0 }, image: { image: 'image:1' } });
    const made = await this.#untilAnswered((service, op) =>
      service.createContainer(op, { podSandboxId: sandboxId, config, sandboxConfig: undefined }),
    );
    if (made === undefined) return;
    const { containerId: id } = made;
    const wishes = verdict.wishesFor(id);
    const started = random.chance(0.95) ? await this.#start(id) : false;
    wishes.started = started;
    if (started) await this.#live(id);
    // Some lie about for a while, as kubelet leaves them for their logs.
    await schedule.pause(random.pick([0, 0, random.between(0, 10_000)]));
    wishes.removeAsked = true;
    if (
      random.chance(0.3) &&
      (await this.#askAndLeave(id, (service, op) => service.removeContainer(op, { containerId: id })))
    ) {
      while (this.#rt() === undefined || this.#rt()?.containers.get(id) !== undefined) await schedule.pause(500);
      return;
    }
    await this.#promptly(id, PROMPT_MS, 'RemoveContainer', (service, op) =>
      service.removeContainer(op, { containerId: id }),
    );
    if (this.#rt()?.containers.get(id) !== undefined) verdict.failed(`${short(id)}: removed and still there`);
  }

  async #start(id: string): Promise<boolean> {
    try {
      await this.#untilAnswered((service, op) => service.startContainer(op, { containerId: id }), true);
      // Success is what somebody who looks sees as well.
      return this.#rt()?.containers.get(id)?.status.state.kind !== 'created';
    } catch {
      return false;
    }
  }

  /** Stops it, or lets it end by itself, or does nothing before it is removed. */
  async #live(id: string): Promise<void> {
    const { random, schedule, troubles } = this.#deps;
    const { endsAfterMs, sound } = troubles.temperOf(id);
    await schedule.pause(random.pick([0, random.between(0, 500), random.between(0, 8_000)]));
    if (random.chance(0.15)) return;
    if (endsAfterMs !== undefined && sound && random.chance(0.5)) {
      await this.#untilExited(id);
      return;
    }
    const graces = [random.pick([0, 1, 3, 10, 30]), ...(random.chance(0.4) ? [random.pick([0, 1, 5, 60])] : [])];
    await Promise.all(
      graces.map(async (graceS, index) => {
        if (index > 0) await schedule.pause(random.between(0, 3_000));
        await this.#stop(id, graceS);
      }),
    );
  }

  async #stop(id: string, graceS: number): Promise<void> {
    const { schedule, verdict, random } = this.#deps;
    const wishes = verdict.wishesFor(id);
    const graceMs = graceS * 1000;
    wishes.killFromMs = Math.min(wishes.killFromMs, schedule.nowMs + graceMs);
    const leaves = random.chance(0.2);
    if (
      leaves &&
      (await this.#askAndLeave(id, (service, op) =>
        service.stopContainer(op, { containerId: id, timeout: BigInt(graceS) }),
      ))
    ) {
      await this.#untilExited(id);
      return;
    }
    await this.#promptly(id, graceMs + PROMPT_MS, 'StopContainer', (service, op) =>
      service.stopContainer(op, { containerId: id, timeout: BigInt(graceS) }),
    );
  }

  /** Takes the pod away. Nothing of it is left when this returns. */
  async sandbox(id: string): Promise<void> {
    await this.#untilDone((service, op) => service.stopPodSandbox(op, { podSandboxId: id }));
    await this.#untilDone((service, op) => service.removePodSandbox(op, { podSandboxId: id }));
  }

  async #untilExited(id: string): Promise<void> {
    for (;;) {
      const answer = await this.#untilAnswered((service, op) =>
        service.containerStatus(op, { containerId: id, verbose: false }),
      );
      if (answer?.status?.state === ContainerState.CONTAINER_EXITED) return;
      await this.#deps.schedule.pause(500);
    }
  }

  /** A call about a sound container has to end in time however bad others fare; about another one, some time. */
  async #promptly(
    id: string,
    withinMs: number,
    what: string,
    call: (service: RuntimeService, op: Op) => Promise<unknown>,
  ): Promise<void> {
    const { schedule, daemon, verdict } = this.#deps;
    for (;;) {
      const { number } = daemon;
      const fromMs = schedule.nowMs;
      try {
        await this.#call(call);
      } catch (error) {
        if (
          daemon.number === number &&
          daemon.life !== undefined &&
          this.#mustBePrompt(id) &&
          !isKind(error, 'Unavailable')
        ) {
          verdict.failed(`${short(id)}: ${what} failed: ${messageOf(error)}`);
        }
        await schedule.pause(AGAIN_MS);
        continue;
      }
      const tookMs = schedule.nowMs - fromMs;
      if (tookMs > withinMs && this.#mustBePrompt(id) && daemon.number === number) {
        verdict.failed(`${short(id)}: ${what} took ${String(tookMs)} ms`);
      }
      return;
    }
  }

  #mustBePrompt(id: string): boolean {
    return this.#deps.troubles.temperOf(id).sound && !this.#deps.verdict.lenient;
  }

  /** Repeats what broke off with the connection. Undefined: the answer was no. With `strict` a no is thrown. */
  async #untilAnswered<T>(
    call: (service: RuntimeService, op: Op) => Promise<T>,
    strict = false,
  ): Promise<T | undefined> {
    for (;;) {
      const { number } = this.#deps.daemon;
      try {
        return await this.#call(call);
      } catch (error) {
        const broken = this.#deps.daemon.number !== number || this.#deps.daemon.life === undefined;
        if (!broken && !isKind(error, 'Unavailable', 'ResourceExhausted') && !isBeingUndone(error)) {
          if (isKind(error, 'AlreadyExists')) {
            this.#deps.verdict.failed(`a repeated create is refused: ${messageOf(error)}`);
          }
          if (strict) throw error;
          return undefined;
        }
        await this.#deps.schedule.pause(AGAIN_MS);
      }
    }
  }

  async #untilDone(call: (service: RuntimeService, op: Op) => Promise<unknown>): Promise<void> {
    for (;;) {
      try {
        await this.#call(call);
        return;
      } catch {
        await this.#deps.schedule.pause(AGAIN_MS);
      }
    }
  }

  /**
   * A client that asks once and goes away. What it asked for is carried out all the same once it is in the record, whoever dies meanwhile.
   * False: it was not heard.
   */
  async #askAndLeave(id: string, call: (service: RuntimeService, op: Op) => Promise<unknown>): Promise<boolean> {
    const { schedule, daemon, random } = this.#deps;
    if (this.#rt() === undefined) return false;
    using child = childSignal(undefined);
    schedule.after(random.between(0, 2_000), () => child.abort(canceled('the client went away')));
    try {
      await daemon.call((service) => call(service, { signal: child.signal, log: silentLog }));
    } catch {
      // It is not there to hear it.
    }
    const rt = this.#rt();
    if (rt === undefined || rt.containers.unpersisted.includes(id)) return false;
    const status = rt.containers.get(id)?.status;
    return status?.removing !== undefined || (status?.stop !== undefined && status.state.kind === 'running');
  }

  /** Asked for anew after every wait: it may be another one, or none. */
  #rt(): RuntimeContext | undefined {
    return this.#deps.daemon.rt;
  }

  async #call<T>(call: (service: RuntimeService, op: Op) => Promise<T>): Promise<T> {
    const op = { signal: new AbortController().signal, log: silentLog };
    return await this.#deps.daemon.call((service) => call(service, op));
  }
}

/** What an earlier try has left under the name could not be undone yet. */
function isBeingUndone(error: unknown): boolean {
  return isKind(error, 'AlreadyExists') && messageOf(error).includes('(creating');
}
