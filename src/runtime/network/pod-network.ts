import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { detached, raceSignal, type Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { errnoOf, GantryError, internal, messageOf } from '../../lib/errors.ts';
import { NO_FAULTS, type FaultPoints } from '../../lib/fault-points.ts';
import type { Ledger, Releasers } from '../../lib/ledger.ts';
import type { Log } from '../../lib/log.ts';
import { Waits } from '../../lib/waits.ts';
import { NSFS_MAGIC } from '../../linux/kernel-constants.ts';
import { readConfigFolder } from './config-folder.ts';
import { ConnectedPods } from './connected-pods.ts';
import { DefaultNetworkCare } from './default-network-care.ts';
import { defaultConfig, networkName } from './default-network.ts';
import { hostListeners, published } from './host-ports.ts';
import { HostSetup } from './host-setup.ts';
import { Iptables } from './iptables.ts';
import { pluginTypes, type NetworkConfig } from './network-config.ts';
import { NetworkHealth } from './network-health.ts';
import {
  forPorts,
  makePlan,
  readPlan,
  subjectOf,
  toPlain,
  type ConnectedPod,
  type NetworkRequest,
  type PlainPlan,
  type Plan,
} from './network-plan.ts';
import { addNetwork, addressesOf, failedAddOf, withoutAddresses, type CniResult } from './plugin-chain.ts';
import { findPlugin, pluginMissing } from './plugin-runner.ts';
import { askVersions } from './plugin-versions.ts';
import { PortClaims } from './port-claims.ts';
import { mustComeFirst, publishedPorts } from './published-ports.ts';
import { giveBackStrays, mustBeFree, takenFrom } from './reservations.ts';
import { takeDown } from './take-down.ts';

export type { NetworkRequest, PlainPlan } from './network-plan.ts';
export type { PortMapping } from './host-ports.ts';

export interface PodNetworkDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly ledger: Ledger;
  readonly instance: string;
  readonly confDir: string;
  readonly binDirs: readonly string[];
  /** Address reservations of the default network. */
  readonly ipamDir: string;
  /** With nothing in the folder: a network of our own, in memory. Without it such a node is not ready. */
  readonly defaultNetwork: boolean;
  readonly iptables?: Iptables;
  readonly faults?: FaultPoints;
  /** A pod is disconnected although a plug-in's DEL goes on failing: nothing of it is left. `why` in words. */
  readonly onDoneWithout?: (pod: ConnectedPod, why: string) => void;
}

export interface NetworkStatus {
  readonly ready: boolean;
  /** As kubelet names it; empty when ready. */
  readonly reason: string;
  readonly message: string;
}

// Of a whole DEL, whatever the caller's patience: it must neither hang for ever nor be cut off by a client that went away.
const DISCONNECT_TIMEOUT_MS = 45_000;

/** Pods' network by CNI: from the configuration folder as it is, else (where wanted) the default network. */
export class PodNetwork {
  readonly #deps: PodNetworkDeps;
  readonly #faults: FaultPoints;
  readonly #host: HostSetup;
  readonly #iptables: Iptables;
  readonly #ports: PortClaims;
  readonly #health: NetworkHealth;
  readonly #pods: ConnectedPods;
  readonly #care: DefaultNetworkCare;
  readonly #disconnecting = new Map<string, { readonly done: Promise<void>; readonly waits: Waits }>();

  constructor(deps: PodNetworkDeps) {
    this.#deps = deps;
    this.#faults = deps.faults ?? NO_FAULTS;
    this.#iptables = deps.iptables ?? new Iptables();
    this.#host = new HostSetup({ ...deps, iptables: this.#iptables });
    this.#ports = new PortClaims(deps.clock);
    this.#pods = new ConnectedPods(deps.ledger, deps.log);
    this.#care = new DefaultNetworkCare({ ...deps, host: this.#host, pods: this.#pods });
    const { binDirs } = deps;
    this.#health = new NetworkHealth({ ...deps, askVersions: (op, type) => askVersions(op, binDirs, type) });
  }

  /** For what the default network holds on the host: `cni-bridge`, `iptables-rule`, `portmap-chains`, `sysctl`. */
  get releasers(): Releasers {
    return this.#host.releasers;
  }

  /**
   * Decides what will be done, before it is done. Throws Unavailable without a usable configuration, FailedPrecondition
   * when a plug-in is missing, AlreadyExists when a host port is taken.
   */
  async plan(op: Op, request: NetworkRequest): Promise<PlainPlan> {
    await this.#claimPorts(op, request);
    try {
      return await this.#plan(op, request);
    } catch (error) {
      this.#ports.drop(request.sandboxId);
      throw error;
    }
  }

  /**
   * For a pod whose connection was made by an earlier process and is not noted any more: what taking it down needs, by the present
   * configuration. Its host ports are claimed from nobody. Throws as {@link plan} does.
   */
  planAgain(op: Op, request: NetworkRequest): Promise<PlainPlan> {
    return this.#plan(op, request);
  }

  async #plan(op: Op, request: NetworkRequest): Promise<PlainPlan> {
    const { confDir, binDirs, instance, ipamDir, defaultNetwork } = this.#deps;
    const folder = await readConfigFolder(confDir);
    let plan: Plan;
    if (folder.kind === 'found') plan = makePlan(request, folder.config, binDirs, { source: folder.source });
    else if (folder.kind === 'empty' && defaultNetwork) {
      const host = await this.#host.choose(op);
      plan = makePlan(request, defaultConfig(instance, ipamDir, host), binDirs, { host });
    } else throw new GantryError('Unavailable', this.#whyNone(folder), { details: { reason: NOT_READY } });
    const missing = await this.#missingPlugin(plan.network);
    if (missing !== undefined) throw pluginMissing(missing, binDirs);
    this.#pods.noteConnecting(request.sandboxId);
    return toPlain(plan);
  }

  /**
   * CNI ADD. When it fails, what it had done so far is for {@link disconnect} to take back. Throws AlreadyExists when another Gantry or
   * another runtime has come between and has one of the host ports.
   */
  async connect(
    op: Op,
    request: NetworkRequest,
    plain: PlainPlan,
  ): Promise<{ ips: readonly string[]; plan: PlainPlan }> {
    const plan = readPlan(plain);
    // By now the intent in the ledger says whose they are.
    this.#ports.drop(request.sandboxId);
    if (plan.host !== undefined) {
      await this.#host.ensure(op, plan.host);
      if (plan.ports.length > 0) await this.#host.expectPortmapChains(op);
      this.#care.arm();
    }
    const { network, attachment } = plan;
    const chain = { binDirs: this.#deps.binDirs, network, attachment, faults: this.#faults };
    let result: CniResult;
    try {
      result = await addNetwork(op, chain, request.netnsPath);
    } catch (error) {
      await this.#health.failed(network, error);
      await this.#pods.noteFailedAdd(plan, failedAddOf(error));
      throw error;
    }
    this.#health.accepted(network);
    const ips = addressesOf(result);
    if (ips.length === 0) throw internal(`network ${network.name} gave the pod no address`);
    if (plan.ports.length > 0) {
      const published = await publishedPorts(op, this.#iptables, plan.ports);
      mustComeFirst(published, attachment.containerId, plan.ports);
    }
    if (plan.host !== undefined) await this.#host.confirm();
    return { ips, plan: toPlain({ ...plan, result }) };
  }

  /**
   * CNI DEL, from the plan alone. Without a namespace, or of what is not there, it succeeds. It has a time limit of its own
   * and goes on when the caller's signal fires; a second call joins the first.
   */
  async disconnect(op: Op, plain: PlainPlan, netnsPath: string | undefined): Promise<void> {
    const plan = readPlan(plain);
    const id = plan.attachment.containerId;
    let running = this.#disconnecting.get(id);
    if (running === undefined) {
      const { log, clock } = this.#deps;
      const waits = new Waits(clock);
      const what = `disconnect pod network ${plan.network.name}`;
      const done = detached(log, clock, DISCONNECT_TIMEOUT_MS, what, (own) =>
        this.#disconnect({ ...own, waits }, plan, netnsPath),
      ).finally(() => this.#disconnecting.delete(id));
      running = { done, waits };
      this.#disconnecting.set(id, running);
    }
    const joined = op.waits?.join(running.waits);
    try {
      await raceSignal(running.done, op.signal);
    } finally {
      joined?.[Symbol.dispose]();
    }
  }

  /** Looks anew each time, and waits for no plug-in. */
  async status(): Promise<NetworkStatus> {
    const notReady = (message: string): NetworkStatus => ({ ready: false, reason: NOT_READY, message });
    const folder = await readConfigFolder(this.#deps.confDir);
    const { binDirs, instance, ipamDir, defaultNetwork } = this.#deps;
    let network: NetworkConfig;
    if (folder.kind === 'found') network = folder.config;
    else if (folder.kind === 'empty' && defaultNetwork) {
      network = defaultConfig(instance, ipamDir, { bridge: '', subnet: '' });
    } else return notReady(this.#whyNone(folder));
    const missing = await this.#missingPlugin(network);
    if (missing !== undefined) return notReady(messageOf(pluginMissing(missing, binDirs)));
    const problem = await this.#health.problem(network);
    if (problem !== undefined) return notReady(problem);
    return { ready: true, reason: '', message: '' };
  }

  /** Puts back what somebody took away of the default network's rules; undoes them when no pod is left. */
  repair(op: Op): Promise<void> {
    return this.#care.repair(op);
  }

  /** Of the default network; see {@link giveBackStrays}. */
  giveBackStrays(isKnown: (sandboxId: string) => boolean): Promise<void> {
    const { ipamDir, instance, log } = this.#deps;
    return giveBackStrays(log, join(ipamDir, networkName(instance)), isKnown);
  }

  /** Looks after the rules of the pods that an earlier process connected. */
  start(): void {
    if (this.#host.current() !== undefined) this.#care.arm();
  }

  /** Waits a while for what is being undone on the host. */
  async close(): Promise<void> {
    this.#health.close();
    await this.#care.close();
  }

  async #disconnect(op: Op, plan: Plan, netnsPath: string | undefined): Promise<void> {
    const netns = netnsPath !== undefined && (await isNamespace(netnsPath)) ? netnsPath : undefined;
    const binDirs = [...new Set([...this.#deps.binDirs, ...plan.binDirs])];
    const chain = { binDirs, network: plan.network, attachment: plan.attachment, faults: this.#faults };
    const id = plan.attachment.containerId;
    const addresses = plan.result === undefined ? [] : addressesOf(plan.result);
    // A DEL that was done and not noted is done once more, when the address may be another pod's, of another runtime even: some plug-ins
    // (firewall) take down whatever has the address.
    const others = await takenFrom(id, plan.network, addresses);
    const result = plan.result === undefined ? undefined : withoutAddresses(plan.result, others);
    const { failedAdd } = plan;
    const present = await this.#presentOf(plan);
    const down = { chain, netns, result, failedAdd, present, iptables: this.#iptables };
    const without = await takeDown(op, down);
    await mustBeFree(plan.network, addresses, id);
    this.#pods.noteDisconnected(id);
    if (without !== undefined) this.#deps.onDoneWithout?.(subjectOf(plan), without);
    if (plan.host !== undefined) this.#care.podLeft();
  }

  /** What the network is by now, when it came from a file and is another than the pod's. */
  async #presentOf({ network, source, ports }: Plan): Promise<NetworkConfig | undefined> {
    if (source === undefined) return undefined;
    const folder = await readConfigFolder(this.#deps.confDir);
    if (folder.kind !== 'found' || folder.config.name !== network.name) return undefined;
    const present = forPorts(folder.config, ports);
    return isDeepStrictEqual(present, network) ? undefined : present;
  }

  async #claimPorts(op: Op, { sandboxId, portMappings, podNamespace, podName }: NetworkRequest): Promise<void> {
    const ports = published(portMappings);
    if (ports.length === 0) return;
    const before = new Set(this.#pods.holders().map((holder) => holder.sandboxId));
    const [listeners, elsewhere] = [await hostListeners(), await publishedPorts(op, this.#iptables, ports)];
    // From here on nobody comes between.
    const holder = { sandboxId, pod: `${podNamespace}/${podName}`, ports };
    this.#ports.claim(holder, this.#pods.holders(), listeners, elsewhere, before);
  }

  async #missingPlugin(network: NetworkConfig): Promise<string | undefined> {
    for (const type of pluginTypes(network)) {
      if ((await findPlugin(this.#deps.binDirs, type)) === undefined) return type;
    }
    return undefined;
  }

  #whyNone(folder: Exclude<Awaited<ReturnType<typeof readConfigFolder>>, { kind: 'found' }>): string {
    if (folder.kind === 'empty') return `no CNI configuration in ${this.#deps.confDir}`;
    return `no usable CNI configuration in ${this.#deps.confDir}: ${folder.problems.join('; ')}`;
  }
}

/** kubelet's word for a network that is not there yet. */
const NOT_READY = 'NetworkPluginNotReady';

/** A pinned namespace; false for a plain file, which is what a reboot leaves of one. */
async function isNamespace(path: string): Promise<boolean> {
  try {
    return (await statfs(path)).type === NSFS_MAGIC;
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return false;
    throw error;
  }
}
