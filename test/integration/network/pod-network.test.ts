import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { Op } from '../../../src/lib/abort.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { kindOf, messageOf } from '../../../src/lib/errors.ts';
import { FakeClock } from '../../../src/lib/fake-clock.ts';
import { LEDGER_SCHEMA } from '../../../src/lib/ledger-rows.ts';
import { Ledger } from '../../../src/lib/ledger.ts';
import { silentLog, type Log } from '../../../src/lib/log.ts';
import { StoreThread } from '../../../src/lib/store/store-thread.ts';
import { Namespaces } from '../../../src/linux/namespaces.ts';
import {
  PodNetwork,
  type NetworkRequest,
  type PlainPlan,
  type PortMapping,
} from '../../../src/runtime/network/pod-network.ts';

const needsRoot = { skip: process.getuid?.() !== 0 && 'needs root' };
const BIN_DIRS = ['/opt/cni/bin', '/usr/lib/cni'];
const IP_FORWARD = '/proc/sys/net/ipv4/ip_forward';
const op: Op = { signal: new AbortController().signal, log: silentLog };

interface Pod {
  readonly id: string;
  readonly request: NetworkRequest;
  readonly netns: string;
}

/** A pod network of an instance of its own, with a ledger as the daemon has it. */
class Bench {
  readonly directory = mkdtempSync(join(tmpdir(), 'gantry-network-'));
  readonly instance: string;
  readonly confDir = join(this.directory, 'net.d');
  readonly binDir = join(this.directory, 'bin');
  readonly ipamDir = join(this.directory, 'ipam');
  readonly store = new StoreThread();
  readonly namespaces = new Namespaces({ clock: systemClock });
  readonly pods: Pod[] = [];
  readonly networks: PodNetwork[] = [];
  ledger!: Ledger;

  constructor(letter = 't') {
    this.instance = `${letter}${String(process.pid)}`;
  }

  async open(): Promise<void> {
    mkdirSync(this.confDir);
    mkdirSync(this.binDir);
    const path = join(this.directory, 'ledger.db');
    const { db } = await this.store.open({ path, schema: LEDGER_SCHEMA, durable: false });
    this.ledger = await Ledger.open(systemClock, db, db);
  }

  network(options: { defaultNetwork?: boolean; clock?: FakeClock; log?: Log; without?: string[] } = {}): PodNetwork {
    const { clock = systemClock, defaultNetwork = true, log = silentLog, without = [] } = options;
    const { ledger, instance, confDir, ipamDir } = this;
    const network = new PodNetwork({
      ...{ clock, log, ledger, instance, confDir, ipamDir, defaultNetwork },
      binDirs: [this.binDir, ...BIN_DIRS],
      onDoneWithout: ({ sandboxId, podNamespace, podName }, why) => {
        without.push(`${sandboxId} ${podNamespace}/${podName}: ${why}`);
      },
    });
    this.networks.push(network);
    return network;
  }

  async pod(portMappings: readonly PortMapping[] = []): Promise<Pod> {
    const id = `pod${String(this.pods.length)}-${this.instance}`;
    const netns = join(this.directory, id);
    await this.namespaces.pinNamespaces(op, { net: netns });
    const request: NetworkRequest = {
      ...{ sandboxId: id, netnsPath: netns, podName: id, podNamespace: 'default', podUid: id, portMappings },
    };
    const pod = { id, netns, request };
    this.pods.push(pod);
    return pod;
  }

  /** As the sandbox's verb does it: intent, ADD, held. */
  async connect(network: PodNetwork, { id, request, netns }: Pod): Promise<{ ip: string; plan: PlainPlan }> {
    const plan = await network.plan(op, request);
    await this.ledger.intend(id, { kind: 'cni', key: id, data: { plan, netnsPath: netns }, volatile: false });
    const connected = await network.connect(op, request, plan);
    await this.ledger.hold(id, 'cni', id, { plan: connected.plan, netnsPath: netns });
    return { ip: connected.ips[0] ?? '', plan: connected.plan };
  }

  async disconnect(network: PodNetwork, { id, netns }: Pod, plan: PlainPlan): Promise<void> {
    await network.disconnect(op, plan, netns);
    for (const entry of this.ledger.entriesOf(id)) await this.ledger.forget(entry);
  }

  plugin(type: string, script: string): void {
    writeFileSync(join(this.binDir, type), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  }

  conf(name: string, content: unknown): void {
    writeFileSync(join(this.confDir, name), typeof content === 'string' ? content : JSON.stringify(content));
  }

  async close(): Promise<void> {
    for (const network of this.networks) await network.close();
    for (const { netns } of this.pods) await this.namespaces.unpin(op, netns);
    this.namespaces.close();
    await this.store.close();
    rmSync(this.directory, { recursive: true });
  }
}

async function bench(t: TestContext, letter?: string): Promise<Bench> {
  const made = new Bench(letter);
  await made.open();
  t.after(() => made.close());
  return made;
}

const iptablesRules = (instance: string): string[] =>
  ['nat', 'filter'].flatMap((table) =>
    spawnSync('iptables', ['-w', '10', '-t', table, '-S'], { encoding: 'utf8' })
      .stdout.split('\n')
      .filter((line) => line.includes(`"gantry ${instance}"`)),
  );

const inside = (netns: string, ...argv: string[]): ReturnType<typeof spawnSync> =>
  spawnSync('nsenter', [`--net=${netns}`, ...argv], { encoding: 'utf8', timeout: 60_000 });

test(
  'the default network: pods reach each other, rules come back, the last pod takes all of it along',
  needsRoot,
  async (t) => {
    const b = await bench(t);
    const network = b.network();
    const forwardBefore = readFileSync(IP_FORWARD, 'utf8').trim();
    assert.equal((await network.status()).ready, true);
    const [one, two] = [await b.pod(), await b.pod()];
    const first = await b.connect(network, one);
    const second = await b.connect(network, two);
    assert.notEqual(first.ip, second.ip);
    assert.equal(readFileSync(IP_FORWARD, 'utf8').trim(), '1');
    assert.equal(iptablesRules(b.instance).filter((rule) => rule.includes('MASQUERADE')).length, 1);
    assert.ok(existsSync(`/sys/class/net/gtry-${b.instance}/bridge`));

    const server = spawn('nsenter', [
      `--net=${two.netns}`,
      'busybox',
      'nc',
      '-l',
      '-p',
      '80',
      '-e',
      '/bin/echo',
      'hello',
    ]);
    t.after(() => server.kill('SIGKILL'));
    let answer = '';
    for (let attempt = 0; attempt < 100 && answer !== 'hello'; attempt++) {
      await systemClock.sleep(100);
      answer = String(inside(one.netns, 'busybox', 'nc', '-w', '5', second.ip, '80').stdout).trim();
    }
    assert.equal(answer, 'hello');

    const subnet = /-s (\S+)/.exec(iptablesRules(b.instance)[0] ?? '')?.[1] ?? '';
    const rule = [
      '-s',
      subnet,
      '!',
      '-d',
      subnet,
      '-m',
      'comment',
      '--comment',
      `gantry ${b.instance}`,
      '-j',
      'MASQUERADE',
    ];
    assert.equal(spawnSync('iptables', ['-w', '10', '-t', 'nat', '-D', 'POSTROUTING', ...rule]).status, 0);
    await network.repair(op);
    assert.equal(iptablesRules(b.instance).filter((line) => line.includes('MASQUERADE')).length, 1);

    await b.disconnect(network, one, first.plan);
    assert.equal(iptablesRules(b.instance).length > 0, true, 'a pod still needs it');
    await b.disconnect(network, two, second.plan);
    await network.close();
    assert.deepEqual(iptablesRules(b.instance), []);
    assert.equal(existsSync(`/sys/class/net/gtry-${b.instance}`), false);
    assert.deepEqual(b.ledger.owners(), []);
    const leases = spawnSync('find', [b.ipamDir, '-name', '*.*.*.*'], { encoding: 'utf8' }).stdout;
    assert.equal(leases, '');
    const otherBridges = spawnSync('sh', ['-c', 'ls -d /sys/class/net/*/bridge'], { encoding: 'utf8' }).stdout;
    if (otherBridges === '') assert.equal(readFileSync(IP_FORWARD, 'utf8').trim(), forwardBefore);
  },
);

test('two that leave at once, and one that leaves twice', needsRoot, async (t) => {
  const b = await bench(t);
  const network = b.network();
  const pods = [await b.pod(), await b.pod(), await b.pod()];
  const plans = await Promise.all(pods.map((pod) => b.connect(network, pod)));
  assert.equal(new Set(plans.map(({ ip }) => ip)).size, 3);
  await Promise.all(pods.map((pod, index) => b.disconnect(network, pod, plans[index]!.plan)));
  await network.disconnect(op, plans[0]!.plan, pods[0]!.netns);
  await network.close();
  assert.deepEqual(iptablesRules(b.instance), []);
  assert.deepEqual(b.ledger.owners(), []);
});

test('DEL without the namespace frees the address, by another process too', needsRoot, async (t) => {
  const b = await bench(t);
  const before = b.network();
  const pod = await b.pod();
  const { plan } = await b.connect(before, pod);
  await before.close();
  await b.namespaces.unpin(op, pod.netns);
  const after = b.network();
  await b.disconnect(after, pod, JSON.parse(JSON.stringify(plan)) as PlainPlan);
  await after.close();
  assert.deepEqual(iptablesRules(b.instance), []);
  assert.equal(spawnSync('find', [b.ipamDir, '-name', '*.*.*.*'], { encoding: 'utf8' }).stdout, '');
});

test('host ports: reachable, refused when taken', needsRoot, async (t) => {
  const b = await bench(t);
  const network = b.network();
  const natRules = (): string => spawnSync('iptables', ['-w', '10', '-t', 'nat', '-S'], { encoding: 'utf8' }).stdout;
  const chainsBefore = natRules().includes('CNI-HOSTPORT-DNAT');
  const probe = createServer().listen(0);
  await once(probe, 'listening');
  const address = probe.address();
  const hostPort = typeof address === 'object' && address !== null ? address.port : 0;
  const mapping: PortMapping = { protocol: 'tcp', containerPort: 80, hostPort };
  const pod = await b.pod([mapping]);
  await assert.rejects(network.plan(op, pod.request), (error) => {
    assert.equal(kindOf(error), 'AlreadyExists');
    assert.match(messageOf(error), new RegExp(`host port ${String(hostPort)}/tcp is in use`));
    return true;
  });
  probe.close();
  await once(probe, 'close');
  const { plan, ip } = await b.connect(network, pod);
  const other = await b.pod([mapping]);
  await assert.rejects(network.plan(op, other.request), /is taken by pod default\/pod0/);
  const client = await b.pod();
  const joined = await b.connect(network, client);
  const server = spawn('nsenter', [
    `--net=${pod.netns}`,
    'busybox',
    'nc',
    '-ll',
    '-p',
    '80',
    '-e',
    '/bin/echo',
    'hello',
  ]);
  t.after(() => server.kill('SIGKILL'));
  const gateway = ip.replace(/\d+\.\d+$/, '0.1');
  let answer = '';
  for (let attempt = 0; attempt < 100 && answer !== 'hello'; attempt++) {
    await systemClock.sleep(100);
    answer = String(inside(client.netns, 'busybox', 'nc', '-w', '5', gateway, String(hostPort)).stdout).trim();
  }
  assert.equal(answer, 'hello');
  server.kill('SIGKILL');
  await b.disconnect(network, client, joined.plan);
  await b.disconnect(network, pod, plan);
  await network.close();
  const after = natRules();
  assert.equal(after.includes(`--dport ${String(hostPort)} `), false);
  // Somebody else's ports may have come into the chains meanwhile: then they stay.
  if (!after.includes('-A CNI-HOSTPORT-DNAT')) assert.equal(after.includes('CNI-HOSTPORT-DNAT'), chainsBefore);
});

/** What sends a port to pods, the first one first. */
function portRules(hostPort: number): string[] {
  const chain = spawnSync('iptables', ['-w', '10', '-t', 'nat', '-S', 'CNI-HOSTPORT-DNAT'], { encoding: 'utf8' });
  return chain.stdout.split('\n').flatMap((line) => {
    const [, id, ports = ''] = /id: \\"(.*)\\"" -m multiport --dports (\S+)/.exec(line) ?? [];
    return id !== undefined && ports.split(',').includes(String(hostPort)) ? [id] : [];
  });
}

async function unusedPort(): Promise<number> {
  const probe = createServer().listen(0);
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  return typeof address === 'object' && address !== null ? address.port : 0;
}

test("a host port that another Gantry's pod has is refused, until it is given back", needsRoot, async (t) => {
  const [one, other] = [await bench(t), await bench(t, 'u')];
  const [theirs, ours] = [one.network(), other.network()];
  const hostPort = await unusedPort();
  const mapping: PortMapping = { protocol: 'tcp', containerPort: 80, hostPort };
  const first = await one.pod([mapping]);
  const { plan } = await one.connect(theirs, first);
  const second = await other.pod([mapping]);
  await assert.rejects(other.connect(ours, second), (error) => {
    assert.equal(kindOf(error), 'AlreadyExists');
    const whose = `another runtime on this host has published it for the pod sandbox ${first.id}`.slice(0, 70);
    assert.ok(messageOf(error).startsWith(`host port ${String(hostPort)}/tcp is taken: ${whose}`), messageOf(error));
    return true;
  });
  // Not what it has itself, nor another protocol's port of that number.
  await assert.rejects(theirs.plan(op, (await one.pod([mapping])).request), /is taken by pod default\/pod0/);
  const udp = await other.pod([{ ...mapping, protocol: 'udp' }]);
  const joined = await other.connect(ours, udp);
  await other.disconnect(ours, udp, joined.plan);
  assert.deepEqual(portRules(hostPort), [first.id], 'theirs is as it was');

  await one.disconnect(theirs, first, plan);
  const now = await other.connect(ours, second);
  assert.deepEqual(portRules(hostPort), [second.id]);
  await other.disconnect(ours, second, now.plan);
  await theirs.close();
  await ours.close();
});

test('of two Gantrys that publish a port at the same moment one gives way', needsRoot, async (t) => {
  const [one, other] = [await bench(t), await bench(t, 'u')];
  const [theirs, ours] = [one.network(), other.network()];
  const hostPort = await unusedPort();
  const mapping: PortMapping = { protocol: 'tcp', containerPort: 80, hostPort };
  const [first, second] = [await one.pod([mapping]), await other.pod([mapping])];
  // Both have looked, and neither has seen the other.
  const plan = await ours.plan(op, second.request);
  const data = { plan, netnsPath: second.netns };
  await other.ledger.intend(second.id, { kind: 'cni', key: second.id, data, volatile: false });
  const { plan: won } = await one.connect(theirs, first);
  await assert.rejects(ours.connect(op, second.request, plan), (error) => {
    assert.equal(kindOf(error), 'AlreadyExists');
    assert.match(messageOf(error), /is taken: another runtime on this host has published it/);
    return true;
  });
  await other.disconnect(ours, second, plan);
  assert.deepEqual(portRules(hostPort), [first.id]);
  await one.disconnect(theirs, first, won);
  for (const network of [theirs, ours]) await network.close();
  for (const b of [one, other]) {
    assert.deepEqual(iptablesRules(b.instance), []);
    assert.deepEqual(b.ledger.owners(), []);
  }
});

test('what is missing is said: no configuration, a broken one, no plug-in', needsRoot, async (t) => {
  const b = await bench(t);
  const network = b.network({ defaultNetwork: false });
  const pod = await b.pod();
  assert.deepEqual(await network.status(), {
    ...{ ready: false, reason: 'NetworkPluginNotReady', message: `no CNI configuration in ${b.confDir}` },
  });
  await assert.rejects(network.plan(op, pod.request), /no CNI configuration in/);
  b.conf('10-broken.conflist', '{');
  assert.match((await network.status()).message, /10-broken\.conflist: not JSON/);
  await assert.rejects(b.network().plan(op, pod.request), /no usable CNI configuration/);
  b.conf('20-net.conflist', { name: 'n', cniVersion: '1.0.0', plugins: [{ type: 'not-there' }] });
  assert.match((await network.status()).message, /plug-in not-there is in none of/);
  await assert.rejects(network.plan(op, pod.request), (error) => kindOf(error) === 'FailedPrecondition');
  b.plugin('not-there', 'exit 0');
  assert.equal((await network.status()).ready, true);
});

test('plug-ins that do not take the configuration: the network is not ready and says which', needsRoot, async (t) => {
  const b = await bench(t);
  const network = b.network({ defaultNetwork: false });
  const until = async (wanted: RegExp | 'ready'): Promise<void> => {
    const endMs = performance.now() + 60_000;
    for (;;) {
      const { ready, message } = await network.status();
      if (wanted === 'ready' ? ready : !ready && wanted.test(message)) return;
      assert.ok(performance.now() < endMs, `not within a minute: ${String(wanted)}, but ${message}`);
      await systemClock.sleep(20);
    }
  };
  const plugins = [{ type: 'picky' }];
  const says = (...supportedVersions: string[]): string =>
    `[ $CNI_COMMAND != VERSION ] || { echo '${JSON.stringify({ cniVersion: '1.0.0', supportedVersions })}'; exit 0; }`;
  b.conf('10-net.conflist', { name: 'n', cniVersion: '1.0.0', plugins });
  b.plugin('picky', says('0.3.1', '0.4.0'));
  await until(/plug-in picky \(.*\/picky\) does not speak the cniVersion 1\.0\.0 of network n, but 0\.3\.1, 0\.4\.0/);
  b.conf('10-net.conflist', { name: 'n', cniVersion: '0.4.0', plugins });
  await until('ready');

  b.plugin('picky', `${says('0.4.0')}; [ $CNI_COMMAND = DEL ] || { echo '{"code":7,"msg":"no such mode"}'; exit 1; }`);
  const pod = await b.pod();
  const plan = await network.plan(op, pod.request);
  await assert.rejects(network.connect(op, pod.request, plan), /no such mode/);
  await until(/plug-in picky failed \(ADD\): no such mode/);
  await network.disconnect(op, plan, pod.netns);
  b.conf('10-net.conflist', { name: 'n', cniVersion: '0.4.0', plugins: [{ type: 'picky', mode: 'another' }] });
  await until('ready');

  // Status never waits for one.
  b.plugin('picky', 'sleep 1000');
  await until('ready');
  await network.close();
});

test("a plug-in's failure in its own words, and teardown when the configuration is gone", needsRoot, async (t) => {
  const b = await bench(t);
  const network = b.network();
  b.conf('10-net.conflist', { name: 'n', cniVersion: '1.0.0', plugins: [{ type: 'good' }, { type: 'bad' }] });
  const record = join(b.directory, 'calls');
  b.plugin(
    'good',
    `echo "good $CNI_COMMAND" >> ${record}; cat > ${record}.$CNI_COMMAND; echo '{"cniVersion":"1.0.0","ips":[{"address":"10.9.9.9/24"}]}'`,
  );
  b.plugin(
    'bad',
    `echo "bad $CNI_COMMAND" >> ${record}; [ $CNI_COMMAND = DEL ] && exit 0; echo '{"code":11,"msg":"no luck","details":"try tomorrow"}'; exit 1`,
  );
  const pod = await b.pod();
  const plan = await network.plan(op, pod.request);
  await assert.rejects(network.connect(op, pod.request, plan), (error) => {
    assert.equal(kindOf(error), 'Unavailable');
    assert.equal(messageOf(error), 'CNI plug-in bad failed (ADD): no luck: try tomorrow');
    return true;
  });
  rmSync(join(b.confDir, '10-net.conflist'));
  await network.disconnect(op, plan, pod.netns);
  assert.deepEqual(readFileSync(record, 'utf8').trim().split('\n'), ['good ADD', 'bad ADD', 'bad DEL', 'good DEL']);
  const input = JSON.parse(readFileSync(`${record}.ADD`, 'utf8')) as unknown;
  assert.deepEqual(input, { type: 'good', name: 'n', cniVersion: '1.0.0' });
});

test('a DEL that hangs has a limit of its own and survives the caller', needsRoot, async (t) => {
  const b = await bench(t);
  const clock = new FakeClock();
  const network = b.network({ clock });
  b.conf('10-net.conflist', { name: 'n', cniVersion: '1.0.0', plugins: [{ type: 'slow' }] });
  const started = join(b.directory, 'started');
  b.plugin('slow', `touch ${started}; [ $CNI_COMMAND = DEL ] && exec sleep 1000`);
  const pod = await b.pod();
  const plan = await network.plan(op, pod.request);
  const caller = new AbortController();
  const mine = network.disconnect({ ...op, signal: caller.signal }, plan, pod.netns);
  const joined = network.disconnect(op, plan, pod.netns);
  joined.catch(() => undefined);
  caller.abort(new Error('client went away'));
  await assert.rejects(mine, /client went away/);
  while (!existsSync(started)) await systemClock.sleep(20);
  await clock.advance(60_000);
  await assert.rejects(joined, (error) => kindOf(error) === 'DeadlineExceeded');
  // Later the plug-in works again.
  b.plugin('slow', 'exit 0');
  await network.disconnect(op, plan, undefined);
});

test(
  "DEL once more, when an address is somebody else's by now: no plug-in is told of that address",
  needsRoot,
  async (t) => {
    const b = await bench(t);
    const network = b.network();
    const dataDir = join(b.directory, 'addresses');
    const addresses = join(dataDir, 'n');
    mkdirSync(addresses, { recursive: true });
    const ipam = { type: 'host-local', dataDir };
    b.conf('10-net.conflist', {
      name: 'n',
      cniVersion: '1.0.0',
      plugins: [{ type: 'given', ipam }, { type: 'rules' }],
    });
    b.plugin('host-local', 'exit 0');
    const ips = [{ address: '10.9.9.8/24' }, { address: '10.9.9.9/24' }];
    b.plugin('given', `echo '${JSON.stringify({ cniVersion: '1.0.0', ips })}'`);
    // As `firewall` does, which takes down rules by address alone.
    const told = join(b.directory, 'told');
    b.plugin(
      'rules',
      `[ $CNI_COMMAND = ADD ] && echo '${JSON.stringify({ cniVersion: '1.0.0', ips })}'; cat > ${told}`,
    );
    const pod = await b.pod();
    const { plan } = await b.connect(network, pod);
    const toldOf = async (): Promise<unknown> => {
      await network.disconnect(op, plan, pod.netns);
      return (JSON.parse(readFileSync(told, 'utf8')) as { prevResult: { ips: unknown } }).prevResult.ips;
    };

    assert.deepEqual(await toldOf(), ips, 'nobody has them');
    writeFileSync(join(addresses, '10.9.9.9'), 'somebody-else\r\neth0');
    assert.deepEqual(await toldOf(), [ips[0]]);
  },
);

test(
  'a DEL that exits with 0 is held against what is there: an error that it says, an address that stays',
  needsRoot,
  async (t) => {
    const b = await bench(t);
    const warned: Record<string, unknown>[] = [];
    const log: Log = { ...silentLog, warn: (fields) => void warned.push(fields), child: () => log };
    const network = b.network({ log });
    const dataDir = join(b.directory, 'addresses');
    const ipam = { type: 'host-local', dataDir };
    b.conf('10-net.conflist', { name: 'n', cniVersion: '1.0.0', plugins: [{ type: 'odd', ipam }] });
    b.plugin('host-local', 'exit 0');
    const address = join(dataDir, 'n', '10.9.9.9');
    const makes = `mkdir -p ${join(dataDir, 'n')}; printf '%s\\r\\neth0' $CNI_CONTAINERID > ${address}`;
    const add = `[ $CNI_COMMAND = ADD ] && { ${makes}; echo '{"cniVersion":"1.0.0","ips":[{"address":"10.9.9.9/24"}]}'; exit 0; }`;
    b.plugin('odd', add);
    const pod = await b.pod();
    const { plan } = await b.connect(network, pod);

    b.plugin('odd', `echo '{"cniVersion":"1.0.0","code":999,"msg":"cannot","details":"no reason"}'; exit 0`);
    await assert.rejects(network.disconnect(op, plan, pod.netns), /CNI plug-in odd failed \(DEL\): cannot: no reason/);

    b.plugin('odd', 'echo "panic: oh dear"; exit 0');
    await assert.rejects(network.disconnect(op, plan, pod.netns), (error) => {
      assert.match(messageOf(error), /said that DEL succeeded, but 10\.9\.9\.9 is still reserved for pod0/);
      return true;
    });
    assert.ok(
      warned.some(({ plugin, stdout }) => plugin === 'odd' && stdout === 'panic: oh dear'),
      JSON.stringify(warned),
    );

    // Given out anew meanwhile: that is nobody's business of ours.
    writeFileSync(address, 'somebody-else\r\neth0');
    await network.disconnect(op, plan, pod.netns);
    assert.equal(readFileSync(address, 'utf8'), 'somebody-else\r\neth0');

    // A result, or nothing at all, is no news.
    warned.length = 0;
    for (const said of ['{"cniVersion":"1.0.0"}', '{}', '']) {
      b.plugin('odd', `echo '${said}'; rm -f ${address}; exit 0`);
      await network.disconnect(op, plan, pod.netns);
    }
    assert.deepEqual(warned, []);

    // What a plug-in says that it could not do is not a result, either.
    b.plugin('odd', `[ $CNI_COMMAND = ADD ] && echo '{"cniVersion":"1.0.0","code":11,"msg":"later"}'; exit 0`);
    await assert.rejects(network.connect(op, pod.request, plan), /CNI plug-in odd failed \(ADD\): later/);
  },
);

/** ADD fails; then DEL, with and without the pod's namespace. Says what the caller was told in the end. */
async function failToConnect(b: Bench, without: string[]): Promise<{ pod: Pod; network: PodNetwork; plan: PlainPlan }> {
  const network = b.network({ without });
  const pod = await b.pod();
  await assert.rejects(b.connect(network, pod), /CNI plug-in .* failed \(ADD\)/);
  const entry = b.ledger.entriesOf(pod.id).find(({ kind }) => kind === 'cni');
  return { pod, network, plan: entry?.data['plan'] as PlainPlan };
}

test('a configuration that its plug-in takes neither for ADD nor for DEL: nothing is owed', needsRoot, async (t) => {
  const b = await bench(t);
  const chain = [{ type: 'loopback' }, { type: 'never-asked' }];
  b.conf('10-net.conflist', { cniVersion: '9.9.9', name: 'x', plugins: chain });
  b.plugin('never-asked', `echo '{"code":999,"msg":"cannot"}'; exit 1`);
  const without: string[] = [];
  const { pod, network, plan } = await failToConnect(b, without);
  await b.disconnect(network, pod, plan);
  assert.deepEqual(b.ledger.owners(), []);
});

test('a DEL that can only fail is done without once nothing is left, and not before', needsRoot, async (t) => {
  const b = await bench(t);
  const dataDir = join(b.directory, 'addresses');
  const ipam = { type: 'host-local', subnet: 'nonsense', dataDir };
  const plugins = [{ type: 'bridge', bridge: `b${b.instance}`, ipam }];
  b.conf('10-net.conflist', { cniVersion: '1.0.0', name: 'x', plugins });
  t.after(() => spawnSync('ip', ['link', 'delete', `b${b.instance}`]));
  const without: string[] = [];
  const { pod, network, plan } = await failToConnect(b, without);
  // Whatever the plug-in had made in there goes with it; until then nobody knows.
  await assert.rejects(b.disconnect(network, pod, plan), /invalid CIDR address: nonsense/);
  await b.namespaces.unpin(op, pod.netns);
  const address = join(dataDir, 'x', '10.9.9.9');
  mkdirSync(join(dataDir, 'x'), { recursive: true });
  writeFileSync(address, `${pod.id}\r\neth0`);
  await assert.rejects(b.disconnect(network, pod, plan), /invalid CIDR address: nonsense/);
  rmSync(address);
  const rule = ['-t', 'nat', '-A', 'POSTROUTING', '-s', '192.0.2.9', '-m', 'comment', '--comment', `id: "${pod.id}"`];
  assert.equal(spawnSync('iptables', ['-w', ...rule]).status, 0);
  t.after(() => spawnSync('iptables', ['-w', ...rule.map((word) => (word === '-A' ? '-D' : word))]));
  await assert.rejects(b.disconnect(network, pod, plan), /invalid CIDR address: nonsense/);
  assert.equal(spawnSync('iptables', ['-w', ...rule.map((word) => (word === '-A' ? '-D' : word))]).status, 0);
  assert.deepEqual(without, []);
  await b.disconnect(network, pod, plan);
  assert.match(
    without.join('\n'),
    /^pod0-t\d+ default\/pod0.*nonsense; no namespace, address, interface or rule of it is left$/,
  );
  assert.deepEqual(b.ledger.owners(), []);
});

test("a DEL that fails by the pod's configuration is asked of the network as it is now", needsRoot, async (t) => {
  const b = await bench(t);
  b.conf('10-net.conflist', { cniVersion: '1.0.0', name: 'x', plugins: [{ type: 'odd', address: 'wrong' }] });
  b.plugin('odd', `grep -q wrong && { echo '{"code":999,"msg":"wrong address"}'; exit 1; }; exit 0`);
  const { pod, network, plan } = await failToConnect(b, []);
  await b.namespaces.unpin(op, pod.netns);
  // What such a plug-in leaves somewhere else only it can tell.
  await assert.rejects(b.disconnect(network, pod, plan), /wrong address/);
  b.conf('10-net.conflist', { cniVersion: '1.0.0', name: 'other', plugins: [{ type: 'odd', address: 'right' }] });
  await assert.rejects(b.disconnect(network, pod, plan), /wrong address/);
  b.conf('10-net.conflist', { cniVersion: '1.0.0', name: 'x', plugins: [{ type: 'odd', address: 'right' }] });
  await b.disconnect(network, pod, plan);
  assert.deepEqual(b.ledger.owners(), []);
});
