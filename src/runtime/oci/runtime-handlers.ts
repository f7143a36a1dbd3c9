import type { Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { failedPrecondition, invalidArgument, messageOf, unavailable } from '../../lib/errors.ts';
import { defaultCandidates } from './handler-settings.ts';
import type { OciRuntimeLocation } from './oci-runtime.ts';
import type { ProbeOutcome } from './probe-memory.ts';
import type { Candidate, RefusedRuntime, WorkingRuntime } from './probe.ts';
import { NO_FEATURES, type OciFeatures } from './runtime-features.ts';

export interface HandlersDeps {
  /** See {@link defaultCandidates}. */
  readonly choice: string;
  /** Beside the default one, by name. */
  readonly configured: readonly Candidate[];
  probe(op: Op, candidate: Candidate): Promise<ProbeOutcome>;
  /** What an earlier process has found by a probe, if that may still be believed. */
  recall?(candidate: Candidate): Promise<ProbeOutcome | undefined>;
}

/** What the runtime's verbs ask. */
export type Handlers = Pick<RuntimeHandlers, 'unready' | 'default' | 'working' | 'refused' | 'choose' | 'featuresOf'>;

const FIRST_AGAIN_MS = 2_000;
const LAST_AGAIN_MS = 60_000;
/** A daemon that has just started has better things to do. */
const VERIFY_AFTER_MS = 10_000;

/**
 * The OCI runtimes that sandboxes are made with, by CRI's `runtime_handler`. What works was found by running a container with it. Where the
 * default one does not, nothing new is made until it does; what runs has its own in its record.
 */
export class RuntimeHandlers {
  readonly #deps: HandlersDeps;
  #default: WorkingRuntime | undefined;
  readonly #working = new Map<string, WorkingRuntime>();
  readonly #refused = new Map<string, RefusedRuntime>();
  /** Believed, and not tried by this process yet; by name. */
  readonly #recalled = new Map<string, Candidate>();

  constructor(deps: HandlersDeps) {
    this.#deps = deps;
  }

  /** Why nothing new can be made; undefined: the default one works. */
  get unready(): string | undefined {
    if (this.#default !== undefined) return undefined;
    const reasons = defaultCandidates(this.#deps.choice, this.#deps.configured).map(({ name }) => this.#why(name));
    return `no usable OCI runtime: ${reasons.join('; ')}`;
  }

  /** The name is the default one's own; it has the empty one as well. */
  get default(): WorkingRuntime | undefined {
    return this.#default;
  }

  /** All that work, by name. */
  get working(): readonly WorkingRuntime[] {
    return [...this.#working.values()];
  }

  get refused(): readonly RefusedRuntime[] {
    return [...this.#refused.values()];
  }

  /** For records of a time before the handler was noted there: the default one, or what would be if it worked. */
  get fallback(): OciRuntimeLocation {
    if (this.#default !== undefined) return this.#default.runtime;
    const [first = { name: 'runc', program: 'runc' }] = defaultCandidates(this.#deps.choice, this.#deps.configured);
    return { name: first.name, path: this.#refused.get(first.name)?.path ?? first.program, root: '' };
  }

  /**
   * For a new sandbox. Throws InvalidArgument for a handler that is not configured, FailedPrecondition for one that does not work, Unavailable
   * while the default one does not.
   */
  choose(name: string): WorkingRuntime {
    const found = name === '' ? this.#default : this.#working.get(name);
    if (found !== undefined) return found;
    if (name === '') throw unavailable(this.unready ?? 'no usable OCI runtime');
    const refused = this.#refused.get(name);
    if (refused === undefined) throw invalidArgument(`no runtime handler "${name}" is configured`);
    throw failedPrecondition(`runtime handler "${name}" does not work here: ${this.#why(name)}`);
  }

  /** Of the OCI runtime that a record names. One that is not a handler any more is asked for nothing new. */
  featuresOf({ path }: Pick<OciRuntimeLocation, 'path'>): OciFeatures {
    return this.working.find(({ runtime }) => runtime.path === path)?.features ?? NO_FEATURES;
  }

  /** Takes what an earlier process has found where that may be believed, and tries the rest. */
  async open(op: Op): Promise<void> {
    await this.probe(op, (candidate) => this.#recallOrTry(op, candidate));
    // What was refused once may work by now.
    if (this.#default === undefined && this.#recalled.size > 0) await this.probe(op);
  }

  /** Tries the default one, then the others side by side. */
  async probe(op: Op, find = (candidate: Candidate) => this.#try(op, candidate)): Promise<void> {
    const tried = new Set<string>();
    for (const candidate of defaultCandidates(this.#deps.choice, this.#deps.configured)) {
      if (this.#default !== undefined) break;
      tried.add(candidate.name);
      this.#default = this.#take(candidate, await find(candidate));
    }
    const others = this.#deps.configured.filter(({ name }) => !this.#working.has(name) && !tried.has(name));
    await Promise.all(others.map(async (candidate) => this.#take(candidate, await find(candidate))));
  }

  /** Tries what was only believed, a while later; and the default one, as long as it does not work. Never throws. */
  async verify(op: Op, clock: Clock): Promise<void> {
    await this.keepTrying(op, clock);
    await this.#tryRecalled(op, clock);
    await this.keepTrying(op, clock);
  }

  async #recallOrTry(op: Op, candidate: Candidate): Promise<ProbeOutcome> {
    const recalled = await this.#deps.recall?.(candidate);
    if (recalled === undefined) return await this.#try(op, candidate);
    this.#recalled.set(candidate.name, candidate);
    return recalled;
  }

  async #try(op: Op, candidate: Candidate): Promise<ProbeOutcome> {
    this.#recalled.delete(candidate.name);
    return await this.#deps.probe(op, candidate);
  }

  /** While the default one does not work: says so, and tries again, less and less often, until it does. Never throws. */
  async keepTrying({ signal, log }: Op, clock: Clock): Promise<void> {
    if (this.unready === undefined) return;
    log.error({ reason: this.unready }, 'no new pod can be made; what there is can be looked at, stopped and removed');
    try {
      for (let waitMs = FIRST_AGAIN_MS; this.#default === undefined; waitMs = Math.min(waitMs * 2, LAST_AGAIN_MS)) {
        await clock.sleep(waitMs, signal);
        await this.probe({ signal, log });
      }
      log.info({ ociRuntime: this.#default.runtime.path }, 'the OCI runtime works again');
    } catch (error) {
      if (!signal.aborted) log.error({ error: messageOf(error) }, 'the OCI runtime is not tried any more');
    }
  }

  async #tryRecalled({ signal, log }: Op, clock: Clock): Promise<void> {
    if (this.#recalled.size === 0) return;
    try {
      await clock.sleep(VERIFY_AFTER_MS, signal);
      for (const candidate of [...this.#recalled.values()]) {
        const isDefault = this.#default?.runtime.name === candidate.name;
        const found = this.#take(candidate, await this.#try({ signal, log }, candidate));
        if (isDefault) this.#default = found;
      }
    } catch (error) {
      if (!signal.aborted) log.error({ error: messageOf(error) }, 'the OCI runtime could not be tried again');
    }
  }

  #take({ name }: Candidate, found: ProbeOutcome): WorkingRuntime | undefined {
    if ('reason' in found) {
      this.#working.delete(name);
      this.#refused.set(name, found);
      return undefined;
    }
    this.#refused.delete(name);
    this.#working.set(name, found);
    return found;
  }

  #why(name: string): string {
    const refused = this.#refused.get(name);
    return `${refused?.path ?? name}: ${refused?.reason ?? 'not tried yet'}`;
  }
}
