import { readFile, writeFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { childSignal, raceSignal, type Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { canceled, unavailable } from '../../lib/errors.ts';
import { NO_FAULTS, type FaultPoints } from '../../lib/fault-points.ts';
import { Lane } from '../../lib/lane.ts';
import type { Ledger, LedgerEntry, Releasers } from '../../lib/ledger.ts';
import type { Log } from '../../lib/log.ts';
import { withFaults } from '../../lib/release-faults.ts';
import { bridgePorts, deleteBridge, listBridges } from '../../linux/network-interfaces.ts';
import { bridgeName, instanceSeed, type DefaultNetwork } from './default-network.ts';
import { describeRule, forwardRules, Iptables, masqueradeRule, type IptablesRule } from './iptables.ts';
import { portmapChainsExist, removePortmapChains } from './portmap-chains.ts';
import { chooseSubnet, formatSubnet, parseFibTrie, parseSubnet, type Subnet } from './subnet.ts';

export interface HostSetupDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly ledger: Ledger;
  readonly instance: string;
  readonly iptables?: Iptables;
  readonly faults?: FaultPoints;
}

const IP_FORWARD = '/proc/sys/net/ipv4/ip_forward';
const STEP_TIMEOUT_MS = 60_000;
// Rules are looked for again before a pod is connected, but not for each pod of a burst.
const LOOK_AGAIN_MS = 5_000;
const USUAL_MTU = 1500;
const [PORT_LOOKS, PORT_LOOK_EVERY_MS] = [50, 100];

/**
 * What the default network needs on the host beside CNI: the bridge's subnet, one masquerade rule, forwarding. All of it is
 * in the ledger, put back when somebody flushed it, and undone when no pod uses it any more.
 */
export class HostSetup {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #ledger: Ledger;
  readonly #instance: string;
  readonly #iptables: Iptables;
  readonly #faults: FaultPoints;
  readonly #lane: Lane;
  #lookedAtMs: number | undefined;

  constructor({ clock, log, ledger, instance, iptables = new Iptables(), faults = NO_FAULTS }: HostSetupDeps) {
    this.#clock = clock;
    this.#log = log;
    this.#ledger = ledger;
    this.#instance = instance;
    this.#iptables = iptables;
    this.#faults = faults;
    this.#lane = new Lane(clock, log);
  }

  get owner(): string {
    return `network/${bridgeName(this.#instance)}`;
  }

  /** How to undo each kind of entry. Part of the daemon's table of releasers. */
  get releasers(): Releasers {
    const table = {
      'cni-bridge': async (op: Op, { key }: LedgerEntry) => {
        const ports = await this.#portsLeft(op, key);
        if (ports.length > 0) throw unavailable(`bridge ${key} is in use by ${ports.join(', ')}`);
        await deleteBridge(key);
      },
      'iptables-rule': async (op: Op, { data }: LedgerEntry) => {
        await this.#iptables.remove(op, data['rule'] as IptablesRule);
      },
      'portmap-chains': async (op: Op) => {
        await removePortmapChains(op, this.#iptables);
      },
      sysctl: async (_op: Op, { key, data }: LedgerEntry) => {
        await this.#restoreForwarding(key, String(data['before']));
      },
    };
    return withFaults(table, this.#faults);
  }

  /** The network in use, or the one to use: a subnet that collides with no route of this host. */
  choose(op: Op): Promise<DefaultNetwork> {
    return this.#inLane(op, 'choose a subnet', async () => {
      const inUse = this.current();
      if (inUse !== undefined) return inUse;
      const subnet = subnetOfBridge(bridgeName(this.#instance)) ?? (await this.#freeSubnet());
      if (subnet === undefined) {
        throw unavailable(
          'every private network is routed on this host: give the pods one by a configuration in the CNI folder',
        );
      }
      const mtu = await uplinkMtu();
      const network: DefaultNetwork = {
        bridge: bridgeName(this.#instance),
        subnet: formatSubnet(subnet),
        ...(mtu === undefined || mtu === USUAL_MTU ? {} : { mtu }),
      };
      await this.#intendBridge(network);
      return network;
    });
  }

  async #freeSubnet(): Promise<Subnet | undefined> {
    const taken = parseFibTrie(await readFile('/proc/net/fib_trie', 'utf8'));
    return chooseSubnet(taken, instanceSeed(this.#instance));
  }

  /** The network that the ledger says is in use. */
  current(): DefaultNetwork | undefined {
    const entry = this.#ledger.entriesOf(this.owner).find(({ kind }) => kind === 'cni-bridge');
    return entry?.data['network'] as DefaultNetwork | undefined;
  }

  /** Makes sure that everything is there. Cheap when it was looked at a moment ago. */
  ensure(op: Op, network: DefaultNetwork, { lookNow = false } = {}): Promise<void> {
    return this.#inLane(op, 'set up the host', async (joined) => {
      const nowMs = this.#clock.monotonicMs();
      if (!lookNow && this.#lookedAtMs !== undefined && nowMs - this.#lookedAtMs < LOOK_AGAIN_MS) return;
      if (this.current() === undefined) await this.#intendBridge(network);
      await this.#ensureForwarding();
      const rules = [masqueradeRule(this.#instance, network.subnet)];
      if (!(await this.#iptables.forwardsByDefault(joined)))
        rules.push(...forwardRules(this.#instance, network.bridge));
      for (const rule of rules) await this.#ensureRule(joined, rule);
      this.#lookedAtMs = nowMs;
    });
  }

  /** Before the first host port: notes whether the chains for those are going to be our doing. */
  expectPortmapChains(op: Op): Promise<void> {
    return this.#inLane(op, 'look for port mapping chains', async (joined) => {
      if (await portmapChainsExist(joined, this.#iptables)) return;
      await this.#ledger.intend(this.owner, { kind: 'portmap-chains', key: 'nat', volatile: true });
      await this.#faults.reach('set-up-host/port-chains-intended');
    });
  }

  /** The bridge plug-in has made the bridge. */
  async confirm(): Promise<void> {
    const entry = this.#ledger.entriesOf(this.owner).find(({ kind }) => kind === 'cni-bridge');
    if (entry?.state !== 'intended') return;
    await this.#ledger.hold(this.owner, entry.kind, entry.key);
    await this.#faults.reach('set-up-host/bridge-held');
  }

  /** Undoes everything unless `stillUsed` says otherwise at that moment. What cannot be undone stays in the ledger. */
  releaseUnless(op: Op, stillUsed: () => boolean): Promise<void> {
    return this.#inLane(op, 'undo the host set-up', async (joined) => {
      if (stillUsed()) return;
      this.#lookedAtMs = undefined;
      await this.#ledger.release(joined, this.owner, this.releasers);
    });
  }

  async #intendBridge(network: DefaultNetwork): Promise<void> {
    const item = { kind: 'cni-bridge', key: network.bridge, data: { network }, volatile: true };
    await this.#ledger.intend(this.owner, item);
    await this.#faults.reach('set-up-host/bridge-intended');
  }

  async #ensureRule(op: Op, rule: IptablesRule): Promise<void> {
    const key = describeRule(rule);
    const known = this.#ledger
      .entriesOf(this.owner)
      .some((entry) => entry.kind === 'iptables-rule' && entry.key === key);
    if (await this.#iptables.has(op, rule)) {
      if (known) return;
      // Left by a Gantry of this instance that lost its ledger: it carries our mark, so it is ours to undo.
    } else if (known) {
      this.#log.warn({ rule: key }, 'a rule of ours was gone and is put back');
    }
    await this.#ledger.acquire(this.owner, { kind: 'iptables-rule', key, data: { rule }, volatile: true }, async () => {
      await this.#faults.reach('set-up-host/rule-intended');
      if (!(await this.#iptables.has(op, rule))) await this.#iptables.add(op, rule);
      await this.#faults.reach('set-up-host/rule-added');
    });
    await this.#faults.reach('set-up-host/rule-held');
  }

  async #ensureForwarding(): Promise<void> {
    const before = (await readFile(IP_FORWARD, 'utf8')).trim();
    if (before === '1') return;
    const entry = { kind: 'sysctl', key: IP_FORWARD, data: { before }, volatile: true };
    await this.#ledger.acquire(this.owner, entry, async () => {
      await this.#faults.reach('set-up-host/forwarding-intended');
      await writeFile(IP_FORWARD, '1');
      await this.#faults.reach('set-up-host/forwarding-on');
    });
    await this.#faults.reach('set-up-host/forwarding-held');
  }

  /** A pod's end of the bridge goes when the kernel gets round to taking its namespace apart. */
  async #portsLeft(op: Op, bridge: string): Promise<string[]> {
    for (let rest = PORT_LOOKS; ; rest--) {
      const ports = (await bridgePorts(bridge)) ?? [];
      if (ports.length === 0 || rest === 0) return ports;
      await this.#clock.sleep(PORT_LOOK_EVERY_MS, op.signal);
    }
  }

  /** Another bridge may by now rely on what we switched on: then it stays on. */
  async #restoreForwarding(file: string, before: string): Promise<void> {
    const others = (await listBridges()).filter((name) => name !== bridgeName(this.#instance));
    if (others.length > 0) {
      this.#log.info({ file, bridges: others }, 'forwarding stays on: other bridges are there');
      return;
    }
    await writeFile(file, before);
  }

  /** The step ends with its caller or with its own time, whichever is first: all pods wait in this one lane. */
  async #inLane<T>(op: Op, name: string, run: (joined: Op) => Promise<T>): Promise<T> {
    const step = async (own: Op): Promise<T> => {
      using child = childSignal(own.signal);
      const onAbort = (): void => {
        const reason: unknown = op.signal.reason;
        child.abort(reason instanceof Error ? reason : canceled('canceled'));
      };
      if (op.signal.aborted) onAbort();
      else op.signal.addEventListener('abort', onAbort, { once: true });
      const shown = own.waits === undefined ? undefined : op.waits?.join(own.waits);
      try {
        child.signal.throwIfAborted();
        return await run({ ...own, signal: child.signal });
      } finally {
        op.signal.removeEventListener('abort', onAbort);
        shown?.[Symbol.dispose]();
      }
    };
    return await raceSignal(this.#lane.enqueue({ name, timeoutMs: STEP_TIMEOUT_MS, run: step }), op.signal);
  }
}

/** A bridge with this instance's name is ours even if the ledger was lost: what it has is gone on with. */
function subnetOfBridge(bridge: string): Subnet | undefined {
  const address = networkInterfaces()[bridge]?.find(({ family }) => family === 'IPv4');
  return address?.cidr == null ? undefined : parseSubnet(address.cidr);
}

/** Of the interface that the default route goes through: a larger one on the bridge would lose big packets. */
async function uplinkMtu(): Promise<number | undefined> {
  const routes = (await readFile('/proc/net/route', 'utf8')).split('\n').map((line) => line.split('\t'));
  const uplink = routes.find(
    ([, destination, , , , , , mask]) => destination === '00000000' && mask === '00000000',
  )?.[0];
  if (uplink === undefined) return undefined;
  const mtu = Number(await readFile(`/sys/class/net/${uplink}/mtu`, 'utf8').catch(() => ''));
  return mtu > 0 ? mtu : undefined;
}
