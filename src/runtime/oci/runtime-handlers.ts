import type { Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { failedPrecondition, invalidArgument, messageOf, unavailable } from '../../lib/errors.ts';
import { defaultCandidates } from './handler-settings.ts';
import type { OciRuntimeLocation } from './oci-runtime.ts';
import type { Candidate, RefusedRuntime, WorkingRuntime } from './probe.ts';
import { NO_FEATURES, type OciFeatures } from './runtime-features.ts';

export interface HandlersDeps {
  /** See {@link defaultCandidates}. */
  readonly choice: string;
  /** Beside the default one, by name. */
  readonly configured: readonly Candidate[];
  probe(op: Op, candidate: Candidate): Promise<WorkingRuntime | RefusedRuntime>;
}

/** What the runtime's verbs ask. */
export type Handlers = Pick<RuntimeHandlers, 'unready' | 'default' | 'working' | 'refused' | 'choose' | 'featuresOf'>;

const FIRST_AGAIN_MS = 2_000;
const LAST_AGAIN_MS = 60_000;

/**
 * The OCI runtimes that sandboxes are made with, by CRI's `runtime_handler`. What works was found by running a container with it. Where the
 * default one does not, nothing new is made until it does; what runs has its own in its record.
 */
export class RuntimeHandlers {
  readonly #deps: HandlersDeps;
  #default: WorkingRuntime | undefined;
  readonly #working = new Map<string, WorkingRuntime>();
  readonly #refused = new Map<string, RefusedRuntime>();

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

  /** Tries the default one, then the others side by side. */
  async probe(op: Op): Promise<void> {
    const tried = new Set<string>();
    for (const candidate of defaultCandidates(this.#deps.choice, this.#deps.configured)) {
      if (this.#default !== undefined) break;
      tried.add(candidate.name);
      this.#default = await this.#try(op, candidate);
    }
    const others = this.#deps.configured.filter(({ name }) => !this.#working.has(name) && !tried.has(name));
    await Promise.all(others.map((candidate) => this.#try(op, candidate)));
  }

  /** While the default one does not work: tries again, less and less often, until it does. Never throws. */
  async keepTrying({ signal, log }: Op, clock: Clock): Promise<void> {
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

  async #try(op: Op, candidate: Candidate): Promise<WorkingRuntime | undefined> {
    const found = await this.#deps.probe(op, candidate);
    if ('reason' in found) {
      this.#refused.set(candidate.name, found);
      return undefined;
    }
    this.#refused.delete(candidate.name);
    this.#working.set(candidate.name, found);
    return found;
  }

  #why(name: string): string {
    const refused = this.#refused.get(name);
    return `${refused?.path ?? name}: ${refused?.reason ?? 'not tried yet'}`;
  }
}
