import { readFile } from 'node:fs/promises';
import os from 'node:os';
import type { Op } from '../../lib/abort.ts';
import { withDeadline } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { isKind, messageOf } from '../../lib/errors.ts';
import type { RuntimeService } from '../../cri/services.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Node, NodeRuntimeHandler } from '../../kube/objects.ts';
import { sameStatus } from '../status/pod-status.ts';
import { readHostAddresses } from './host-facts.ts';
import { nodeObject } from './node-object.ts';
import { NO_FEATURES, type RuntimeFeatures } from './runtime-features.ts';

export interface NodeAgentDeps {
  readonly runtime: Pick<RuntimeService, 'status' | 'version'>;
  readonly kube: Pick<KubeClient, 'get' | 'create' | 'replaceStatus'>;
  readonly clock: Clock;
  readonly nodeName: string;
  readonly agentVersion: string;
  readonly bootId: string;
  readonly memoryBytes: number;
  readonly diskBytes: number;
  readonly cpus: number;
  readonly hugePages: ReadonlyMap<number, number>;
  /** What else is wrong here: the PLEG's health. */
  readonly problems: () => readonly string[];
}

/** How often the runtime is asked how it is (BEHAVIOUR.md C4), and how often an unchanged Node is written all the same. */
const RUNTIME_PERIOD_MS = 5_000;
/** Gantry's own, beside those of CRI: a node without room still runs what it has. */
const DISK_CONDITION = 'DiskHasRoom';
/** CRI's: whether pods can be connected. */
const NETWORK_CONDITION = 'NetworkReady';
const HEARTBEAT_MS = 300_000;
const ASK_TIMEOUT_MS = 10_000;

/** Keeps this machine's Node object true. */
export class NodeAgent {
  readonly #deps: NodeAgentDeps;
  #hostIps: readonly string[] = ['127.0.0.1'];
  #runtimeName = 'gantry';
  #runtimeVersion = '';
  #features: RuntimeFeatures = NO_FEATURES;
  #runtimeHandlers: readonly NodeRuntimeHandler[] = [];
  #problems: readonly string[] = ['the runtime has not answered yet'];
  #networkProblem: { readonly reason: string; readonly message: string } | undefined;
  #diskShortage: string | undefined;
  #writtenAtMs = Number.NEGATIVE_INFINITY;
  #lastError: string | undefined;

  constructor(deps: NodeAgentDeps) {
    this.#deps = deps;
  }

  get hostIps(): readonly string[] {
    return this.#hostIps;
  }

  get runtimeName(): string {
    return this.#runtimeName;
  }

  /** As of the runtime's last answer. */
  get features(): RuntimeFeatures {
    return this.#features;
  }

  /** Looks once, so that what follows knows the machine's address and the runtime's name. */
  async prepare(op: Op): Promise<void> {
    this.#hostIps = await readHostAddresses();
    await this.#askRuntime(op);
  }

  /** Until the op's signal fires. */
  async run(op: Op): Promise<void> {
    for (;;) {
      try {
        await this.#write(op);
        this.#lastError = undefined;
      } catch (error) {
        const message = messageOf(error);
        if (message !== this.#lastError && !op.signal.aborted)
          op.log.warn({ error: message }, 'the Node object cannot be written');
        this.#lastError = message;
      }
      try {
        await this.#deps.clock.sleep(RUNTIME_PERIOD_MS, op.signal);
      } catch {
        return;
      }
      await this.prepare(op);
    }
  }

  async #askRuntime(op: Op): Promise<void> {
    const { runtime, clock } = this.#deps;
    try {
      const { status, runtimeHandlers, features } = await withDeadline(
        op,
        clock,
        ASK_TIMEOUT_MS,
        'Status',
        async (bounded) => {
          const version = await runtime.version(bounded, { version: '' });
          this.#runtimeName = version.runtimeName;
          this.#runtimeVersion = `${version.runtimeName}://${version.runtimeVersion}`;
          return await runtime.status(bounded, { verbose: false });
        },
      );
      // The empty name is the handler of a pod that names none.
      const ofHandler = runtimeHandlers.find(({ name }) => name === '')?.features ?? NO_FEATURES;
      this.#runtimeHandlers = runtimeHandlers.map(({ name, features: of }) => {
        const { recursiveReadOnlyMounts, userNamespaces } = of ?? NO_FEATURES;
        return { name, features: { recursiveReadOnlyMounts, userNamespaces } };
      });
      this.#features = { ...ofHandler, supplementalGroupsPolicy: features?.supplementalGroupsPolicy === true };
      const unmet = (status?.conditions ?? []).filter((condition) => !condition.status);
      this.#diskShortage = unmet.find(({ type }) => type === DISK_CONDITION)?.message;
      const network = unmet.find(({ type }) => type === NETWORK_CONDITION);
      this.#networkProblem =
        network === undefined
          ? undefined
          : { reason: network.reason || NETWORK_CONDITION, message: network.message || 'the pod network is not ready' };
      const bad = unmet.filter(({ type }) => type !== DISK_CONDITION && type !== NETWORK_CONDITION);
      this.#problems = bad.map(
        ({ type, reason, message }) => `${type}: ${[reason, message].filter((text) => text !== '').join(': ')}`,
      );
    } catch (error) {
      this.#networkProblem = undefined;
      this.#problems = [`the runtime does not answer: ${messageOf(error)}`];
    }
  }

  async #write(op: Op): Promise<void> {
    const { kube, clock, nodeName } = this.#deps;
    const nowMs = clock.monotonicMs();
    // Asked for each time: somebody may have deleted it.
    const previous = await this.#get(op);
    const object = nodeObject({
      name: nodeName,
      hostIps: this.#hostIps,
      cpus: this.#deps.cpus,
      memoryBytes: this.#deps.memoryBytes,
      diskBytes: this.#deps.diskBytes,
      hugePages: this.#deps.hugePages,
      machine: await machineFacts(this.#deps.bootId),
      runtimeVersion: this.#runtimeVersion,
      agentVersion: this.#deps.agentVersion,
      runtimeHandlers: this.#runtimeHandlers,
      features: { supplementalGroupsPolicy: this.#features.supplementalGroupsPolicy },
      problems: [...this.#problems, ...this.#deps.problems()],
      networkProblem: this.#networkProblem,
      diskShortage: this.#diskShortage,
      nowWallMs: clock.wallMs(),
      previous,
    });
    if (previous === undefined) {
      await kube.create(op, 'nodes', object);
    } else {
      const due = nowMs - this.#writtenAtMs >= HEARTBEAT_MS;
      if (!due && sameStatus(withoutHeartbeat(previous.status), withoutHeartbeat(object.status))) return;
    }
    // Without a version: this agent alone writes it.
    await kube.replaceStatus(op, 'nodes', { ...object, metadata: { name: nodeName } });
    this.#writtenAtMs = nowMs;
  }

  async #get(op: Op): Promise<Node | undefined> {
    try {
      return await this.#deps.kube.get(op, 'nodes', { name: this.#deps.nodeName });
    } catch (error) {
      if (isKind(error, 'NotFound')) return undefined;
      throw error;
    }
  }
}

function withoutHeartbeat(status: Node['status']): unknown {
  const conditions = status?.conditions?.map((condition) => ({ ...condition, lastHeartbeatTime: '' }));
  return { ...status, conditions };
}

async function machineFacts(bootId: string): Promise<{
  architecture: string;
  kernelVersion: string;
  osImage: string;
  machineId: string;
  bootId: string;
}> {
  const release = await readText('/etc/os-release');
  const pretty = /^PRETTY_NAME="?([^"\n]*)"?$/m.exec(release)?.[1];
  const architectures: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };
  return {
    architecture: architectures[process.arch] ?? process.arch,
    kernelVersion: os.release(),
    osImage: pretty ?? 'Linux',
    machineId: (await readText('/etc/machine-id')).trim(),
    bootId,
  };
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch {
    return '';
  }
}
