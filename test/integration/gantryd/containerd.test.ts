import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { PodSandboxState } from '../../../src/cri/gen/api.ts';
import type { DoctorReport } from '../../../src/lib/doctor.ts';
import { execFile } from '../../../src/linux/exec.ts';
import { Iptables } from '../../../src/runtime/network/iptables.ts';
import { portmapChainsExist, removePortmapChains } from '../../../src/runtime/network/portmap-chains.ts';
import { FaultDaemon } from '../../faults/fault-daemon.ts';
import { Containerd, containerdIsMissing, type NeighbourPod } from '../../support/containerd.ts';
import { eventually, freePort, Gantryd, op, podOf } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { TempRoot } from '../../support/temp-root.ts';
import { openWithImage, pod } from '../runtime/runtime-fixture.ts';

const skip = (process.getuid?.() !== 0 && 'needs root') || containerdIsMissing();
/** Five addresses, so that one that was given back too early is soon somebody's again. */
const SUBNET = '10.211.79.0/29';
/** Before, in and after each thing that a killed daemon may have done to the network or may not. */
const POINTS = [
  'run-sandbox/network-intended',
  'add-network/plug-in-running',
  'add-network/plug-in-done',
  'run-sandbox/network-connected',
  'run-sandbox/network-recorded',
  'delete-network/plug-in-running',
  'delete-network/plug-in-done',
  'release/cni-gone',
] as const;
/** Killed so many milliseconds after a pod was asked for, or its end, at the latest. */
const LATEST_MS = 1_500;
const ROUNDS = 4;
/** Ends when asked to, and starts no process while it waits: so all processes of a pod can be compared. */
const QUIET = 'trap "exit 0" TERM; sleep 1000000 & wait';

describe('with a containerd and a second Gantry on the same network', { skip }, () => {
  let containerd: Containerd;
  let theirs: NeighbourPod;
  let hostPort: number;
  let theirLeaks: LeakCheck;
  let chainsWereThere: boolean;

  before(async () => {
    chainsWereThere = await portmapChainsExist(op, new Iptables());
    const root = await TempRoot.make();
    await root.writeCniConfig(SUBNET, { ipMasq: true });
    containerd = await Containerd.start(root);
    // The first pod makes the bridge and the folders, which stay.
    const first = await containerd.runPod('first');
    await containerd.endPod(first);
    theirLeaks = await LeakCheck.begin(containerd.leakRoots(dirname(first.netnsPath)));
    hostPort = await freePort();
    theirs = await containerd.runPod('theirs', { hostPort });
  });
  after(async () => {
    await containerd[Symbol.asyncDispose]();
    if (!chainsWereThere) await removePortmapChains(op, new Iptables());
  });

  const shared = (): { netnsDir: string; cniConfDir: string } => {
    return { netnsDir: dirname(theirs.netnsPath), cniConfDir: containerd.root.cniConfDir };
  };

  /** What its pods have in the shared folders goes with them, even when the test has failed. */
  const startGantry = async (daemons: AsyncDisposableStack): Promise<Gantryd> => {
    const { netnsDir, cniConfDir } = shared();
    const daemon = await Gantryd.withImage({ flags: [`--netns-dir=${netnsDir}`, `--cni-conf-dir=${cniConfDir}`] });
    daemons.use(daemon);
    // What the test has failed with is not to be hidden by this.
    daemons.defer(() => daemon.endPods().catch(() => undefined));
    return daemon;
  };

  /** The reservations that there are: of whom, by address. */
  const reservations = async (): Promise<Map<string, string>> => {
    const { cniDataDir, instance } = containerd.root;
    const folder = join(cniDataDir, `net-${instance}`);
    const names = (await readdir(folder)).filter((name) => /^[0-9.]+$/.test(name));
    const read = async (name: string): Promise<[string, string]> => {
      return [name, (await readFile(join(folder, name), 'utf8').catch(() => '')).split(/\s/)[0] ?? ''];
    };
    return new Map(await Promise.all(names.map(read)));
  };

  /** Every rule that is theirs: those with their address or their sandbox, and those of the chains that these name. */
  const theirRules = async (): Promise<string[]> => {
    const { stdout } = await execFile(op, 'iptables-save', ['-t', 'nat']);
    const lines = stdout.split('\n').filter((line) => line.startsWith('-A '));
    const named = lines.filter((line) => line.includes(theirs.sandboxId) || line.includes(`${theirs.ip}/`));
    const chains = named.map((line) => / -j (CNI-[^ ]+)$/.exec(line)?.[1]).filter((chain) => chain !== undefined);
    return lines.filter((line) => named.includes(line) || chains.some((chain) => line.startsWith(`-A ${chain} `)));
  };

  /** All that containerd, the kernel and a client say of their pod. */
  const lookAtTheirs = async (): Promise<unknown> => {
    const page = await fetch(`http://127.0.0.1:${String(hostPort)}/`, { signal: AbortSignal.timeout(60_000) });
    return {
      container: await containerd.look(theirs),
      reservation: (await reservations()).get(theirs.ip),
      rules: await theirRules(),
      served: await page.text(),
      link: await containerd.exec(theirs, 'ip', 'address', 'show', 'eth0'),
      routes: await containerd.exec(theirs, 'ip', 'route'),
    };
  };

  /** Of each pinned namespace in the folder that all share. */
  const addressesInUse = async (): Promise<string[]> => {
    const found: string[] = [];
    for (const name of await readdir(shared().netnsDir)) {
      const path = join(shared().netnsDir, name);
      const { code, stdout } = await execFile(op, 'nsenter', [
        `--net=${path}`,
        'ip',
        '-4',
        '-o',
        'address',
        'show',
        'eth0',
      ]);
      // It may go while we look.
      if (code === 0) found.push(/inet ([0-9.]+)/.exec(stdout)?.[1] ?? '');
    }
    return found.filter((address) => address !== '').sort();
  };

  /** Whatever state anything is in: an address that a pod has is reserved, and no two have the same. */
  const assertNoneTwice = async (): Promise<void> => {
    const used = await addressesInUse();
    assert.deepEqual(used, [...new Set(used)], 'an address was given out twice');
    const reserved = await reservations();
    for (const address of used) assert.ok(reserved.has(address), `${address} is used and not reserved`);
  };

  test('kill -9, recovery, doctor --fix and the end of ours change nothing of theirs', async () => {
    await using daemons = new AsyncDisposableStack();
    const second = await startGantry(daemons);
    const secondLeaks = await LeakCheck.begin(second.root.leakRoots());
    await second.apply(podOf('second', [{ script: QUIET }]), '--wait', '--timeout', '300s');
    const neighbours = [
      await LeakCheck.begin(containerd.leakRoots(shared().netnsDir)),
      await LeakCheck.begin(second.root.leakRoots()),
    ];
    const ours = await startGantry(daemons);
    const ourLeaks = await LeakCheck.begin(ours.root.leakRoots());
    const before = await lookAtTheirs();
    const secondPids = await second.pids('second');

    await ours.apply(
      podOf('ours', [{ script: QUIET, ports: [{ containerPort: 80, hostPort: await freePort() }] }]),
      '--wait',
    );
    assert.match(await ours.gantry('exec', 'ours', '--', 'wget', '-qO-', `http://${theirs.ip}:8080/`), /It works/);
    const { podIP = '' } = (await ours.pod('ours'))?.status ?? {};
    await containerd.exec(theirs, 'ping', '-c', '1', '-W', '30', podIP);
    await assertNoneTwice();

    await ours.restart('SIGKILL', async () => assert.deepEqual(await lookAtTheirs(), before));
    await ours.ready('ours');
    assert.deepEqual(await lookAtTheirs(), before);

    const looked = JSON.parse((await ours.cli(['doctor', '-o', 'json'])).stdout) as DoctorReport;
    const foreign = looked.findings.filter(({ problem }) => problem === 'foreign');
    assert.deepEqual(looked.findings, foreign, 'nothing is wrong with ours');
    const whose = new Map(foreign.map(({ key, message }) => [key, message]));
    assert.match(whose.get(theirs.netnsPath) ?? '', /another runtime's/);
    const secondNetns = (await readdir(shared().netnsDir)).find((name) => name.includes(second.root.instance)) ?? '';
    assert.match(
      whose.get(join(shared().netnsDir, secondNetns)) ?? '',
      new RegExp(`of the Gantry instance ${second.root.instance}`),
    );
    assert.match(whose.get(`br${containerd.root.instance}`) ?? '', /not this Gantry's/);
    await ours.gantry('doctor', '--fix');
    assert.deepEqual(await lookAtTheirs(), before);

    await ours.gantry('delete', 'pod', 'ours');
    await ours.gantry('doctor', '--fix');
    await ourLeaks.assertNone();
    assert.equal(await ours.end('SIGTERM'), 0);
    for (const leaks of neighbours) await leaks.assertNone();
    assert.deepEqual(await lookAtTheirs(), before);
    assert.deepEqual(await second.pids('second'), secondPids);
    assert.equal(await second.gantry('exec', 'second', '--', 'echo', 'well'), 'well\n');
    await second.gantry('delete', 'pod', 'second');
    await secondLeaks.assertNone();
  });

  test('killed at any moment of a start or an end while they start and end pods, too: all stay apart, and nothing of ours is left', async (t) => {
    await using daemons = new AsyncDisposableStack();
    const ours = await startGantry(daemons);
    const leaks = await LeakCheck.begin(ours.root.leakRoots());
    const before = await lookAtTheirs();
    for (let round = 0; round < ROUNDS; round++) {
      const name = `ours-${String(round)}`;
      const moments = [randomInt(LATEST_MS), randomInt(LATEST_MS)] as const;
      t.diagnostic(`round ${String(round)}: killed after ${moments.join(' ms and ')} ms`);
      await ours.apply(podOf(name, [{ script: QUIET }]));
      await pause(moments[0]);
      const neighbour = await whileDead(ours, () => containerd.runPod(`theirs-${String(round)}`));
      await assertNoneTwice();
      await ours.ready(name);
      await assertNoneTwice();
      await ours.gantry('delete', 'pod', name, '--wait=false');
      await pause(moments[1]);
      await whileDead(ours, () => containerd.endPod(neighbour));
      await assertNoneTwice();
      await ours.gone(name);
      assert.deepEqual(await lookAtTheirs(), before);
    }
    await ours.gantry('doctor', '--fix');
    await eventually(
      async () => [...(await reservations()).values()],
      (ids) => ids.length === 1 && ids[0] === theirs.sandboxId,
      'the address of their pod, and no other',
    );
    await leaks.assertNone();
  });

  test('killed at each step of connecting and disconnecting: an address is given back when nobody has it, and to nobody else before', async () => {
    await using root = await TempRoot.make();
    await (await openWithImage(root, {})).close();
    const { data, state, instance, cgroupParent, cgroupDriver, registryConfigDir, criSocket } = root;
    const places = { data, state, instance, cgroupParent, cgroupDriver, registryConfigDir, criSocket, ...shared() };
    const neighbours: NeighbourPod[] = [];
    await using daemon = new FaultDaemon(places, async () => {
      neighbours.push(await containerd.runPod(`meanwhile-${String(neighbours.length)}`));
    });
    await daemon.ask(({ runtime }) => runtime.version(op, { version: '' }));
    const leaks = await LeakCheck.begin(root.leakRoots());
    const before = await lookAtTheirs();
    for (const [i, point] of POINTS.entries()) {
      daemon.plan([point], false);
      await daemon.kill();
      neighbours.length = 0;
      const config = pod(root, `pod-${String(i)}`, { network: 0 });
      const { podSandboxId } = await daemon.ask(({ runtime }) =>
        runtime.runPodSandbox(op, { config, runtimeHandler: '' }),
      );
      await assertNoneTwice();
      const { status } = await daemon.ask(({ runtime }) =>
        runtime.podSandboxStatus(op, { podSandboxId, verbose: false }),
      );
      assert.equal(status?.state, PodSandboxState.SANDBOX_READY);
      assert.equal((await reservations()).get(status.network?.ip ?? ''), podSandboxId);
      await daemon.ask(({ runtime }) => runtime.stopPodSandbox(op, { podSandboxId }));
      await daemon.ask(({ runtime }) => runtime.removePodSandbox(op, { podSandboxId }));
      assert.deepEqual(daemon.killedAt, [point]);
      await assertNoneTwice();
      const living = [theirs, ...neighbours].map(({ sandboxId }) => sandboxId).sort();
      await eventually(
        async () => [...(await reservations()).values()].sort(),
        (ids) => JSON.stringify(ids) === JSON.stringify(living),
        `${point}: the addresses of their pods, and no other`,
      );
      for (const neighbour of neighbours) {
        assert.equal(await containerd.exec(neighbour, 'echo', 'well'), 'well\n');
        await containerd.endPod(neighbour);
      }
      assert.deepEqual(await lookAtTheirs(), before, point);
    }
    await leaks.assertNone();
  });

  test('their pod ends as ever, and nothing of it is left', async () => {
    await containerd.endPod(theirs);
    await theirLeaks.assertNone();
    await eventually(
      () => containerd.shimSockets(),
      (sockets) => sockets.length === 0,
      'the end of the shims',
    );
    assert.deepEqual([...(await reservations()).keys()], []);
    const left = (await readdir(dirname(theirs.netnsPath))).map((name) => basename(name));
    assert.deepEqual(left, []);
  });
});

/** Killed now, and started again when `work` is done. */
async function whileDead<T>(daemon: Gantryd, work: () => Promise<T>): Promise<T> {
  let done: T | undefined;
  await daemon.restart('SIGKILL', async () => {
    done = await work();
  });
  return done as T;
}

function pause(ms: number): Promise<void> {
  return new Promise((next) => setTimeout(next, ms));
}
