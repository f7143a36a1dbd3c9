import { stat } from 'node:fs/promises';
import { withDeadline, type Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { canceled, messageOf } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import { pluginTypes, type NetworkConfig } from './network-config.ts';
import { forPorts } from './network-plan.ts';
import { failedAddOf } from './plugin-chain.ts';
import { refusesForConfig } from './plugin-error.ts';
import { findPlugin } from './plugin-runner.ts';

export interface NetworkHealthDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly binDirs: readonly string[];
  /** The versions of CNI that the plug-in says it speaks; undefined where it says nothing of the kind. */
  readonly askVersions: (op: Op, type: string) => Promise<readonly string[] | undefined>;
}

interface Asked {
  /** Of the file that was asked: another one under the same path is asked anew. */
  readonly identity: string;
  /** Undefined while it is being asked, and when it gave no answer. */
  versions?: readonly string[];
  /** Monotonic; not before the answer is there. */
  askAgainAtMs: number;
}

interface Refusal {
  readonly config: string;
  readonly plugin: string;
  readonly identity: string | undefined;
  readonly message: string;
  readonly untilMs: number;
}

const ASK_TIMEOUT_MS = 10_000;
/** One that gave no answer may have been on a busy machine. */
const ASK_AGAIN_MS = 60_000;
/** A kubelet tries no pod on a node that is not ready, so nothing else could show that what the plug-in missed is there by now. */
const REFUSAL_COUNTS_MS = 300_000;

/**
 * Whether plug-ins that are there take their configuration: by the versions of CNI that they say they speak, and by what came of the last
 * ADDs. Nobody waits for a plug-in: it is asked in the background, and what is not known yet is no problem.
 */
export class NetworkHealth {
  readonly #deps: NetworkHealthDeps;
  readonly #asked = new Map<string, Asked>();
  readonly #closing = new AbortController();
  /** The configuration that connected a pod last, whatever its plug-ins say of themselves. */
  #accepted: string | undefined;
  #refusal: Refusal | undefined;

  constructor(deps: NetworkHealthDeps) {
    this.#deps = deps;
  }

  /** Why no pod can be connected with this configuration, or nothing. */
  async problem(network: NetworkConfig): Promise<string | undefined> {
    const config = identityOf(network);
    const refused = await this.#refusedStill(config);
    if (refused !== undefined) return refused;
    if (this.#accepted === config) return undefined;
    for (const type of pluginTypes(network)) {
      const path = await findPlugin(this.#deps.binDirs, type);
      const versions = path === undefined ? undefined : await this.#versionsOf(type, path);
      if (versions === undefined || versions.includes(network.cniVersion)) continue;
      return `CNI plug-in ${type} (${path ?? ''}) does not speak the cniVersion ${network.cniVersion} of network ${network.name}, but ${versions.join(', ')}`;
    }
    return undefined;
  }

  /** ADD succeeded with it. */
  accepted(network: NetworkConfig): void {
    this.#accepted = identityOf(network);
    this.#refusal = undefined;
  }

  /** ADD failed with it: it counts if a plug-in that is told nothing of the single pod refused what it was told. */
  async failed(network: NetworkConfig, error: unknown): Promise<void> {
    const add = failedAddOf(error);
    const plugin = add === undefined ? undefined : network.plugins[add.position];
    if (plugin === undefined || !refusesForConfig(add?.code)) return;
    if (Object.values(plugin.capabilities ?? {}).includes(true)) return;
    this.#accepted = undefined;
    this.#refusal = {
      config: identityOf(network),
      plugin: plugin.type,
      identity: await this.#identityOfPlugin(plugin.type),
      message: messageOf(error),
      untilMs: this.#deps.clock.monotonicMs() + REFUSAL_COUNTS_MS,
    };
  }

  close(): void {
    this.#closing.abort(canceled('the pod network is closed'));
  }

  async #refusedStill(config: string): Promise<string | undefined> {
    const refusal = this.#refusal;
    if (refusal?.config !== config || this.#deps.clock.monotonicMs() >= refusal.untilMs) return undefined;
    return (await this.#identityOfPlugin(refusal.plugin)) === refusal.identity ? refusal.message : undefined;
  }

  async #identityOfPlugin(type: string): Promise<string | undefined> {
    const path = await findPlugin(this.#deps.binDirs, type);
    return path === undefined ? undefined : await identityOfFile(path);
  }

  async #versionsOf(type: string, path: string): Promise<readonly string[] | undefined> {
    const identity = await identityOfFile(path);
    if (identity === undefined) return undefined;
    const known = this.#asked.get(path);
    const isDue = known === undefined || this.#deps.clock.monotonicMs() >= known.askAgainAtMs;
    if (known?.identity === identity && !isDue) return known.versions;
    const asked: Asked = { identity, askAgainAtMs: Infinity };
    this.#asked.set(path, asked);
    void this.#ask(type, asked);
    return undefined;
  }

  async #ask(type: string, asked: Asked): Promise<void> {
    const { clock, log, askVersions } = this.#deps;
    const op = { signal: this.#closing.signal, log };
    try {
      const what = `ask CNI plug-in ${type} for its versions`;
      const versions = await withDeadline(op, clock, ASK_TIMEOUT_MS, what, (own) => askVersions(own, type));
      if (versions !== undefined) {
        asked.versions = versions;
        return;
      }
    } catch (error) {
      log.debug({ plugin: type, error: messageOf(error) }, 'a CNI plug-in does not say which versions it speaks');
    }
    asked.askAgainAtMs = clock.monotonicMs() + ASK_AGAIN_MS;
  }
}

/** As every pod has it: what host ports add is of those pods that have some. */
function identityOf(network: NetworkConfig): string {
  return JSON.stringify(forPorts(network, []));
}

async function identityOfFile(path: string): Promise<string | undefined> {
  try {
    const { dev, ino, size, mtimeNs } = await stat(path, { bigint: true });
    return [dev, ino, size, mtimeNs].join(' ');
  } catch {
    return undefined;
  }
}
