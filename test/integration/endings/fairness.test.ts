import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { NamespaceMode, type PodSandboxConfig } from '../../../src/cri/gen/api.ts';
import { HangingCni } from '../../support/hanging-cni.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { quantile, scaled } from '../../support/scale.ts';
import { WrappedOciRuntime } from '../../support/wrapped-oci-runtime.ts';
import { eventually } from '../runtime/daemon-process.ts';
import { container, op, pod } from '../runtime/runtime-fixture.ts';
import { CriDaemon, timed } from './cri-daemon.ts';
import { canDelayUmount, DelayedUmount } from './delayed-umount.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const CONTAINERS = scaled({ small: 20, whole: 100 });
const HANG_MS = scaled({ small: 5_000, whole: 60_000 });
const PER_POD = 5;
const EXIT_EVERY_MS = 50;
const ASK_EVERY_MS = 50;
const AT_ONCE = 4;
/**
 * Machines differ, and have other work: what is compared is the same work without the hung one, in the same run. Whoever waits for
 * the hung one waits for seconds.
 */
const RATIO = 3;
const SLACK_MS = { exited: 500, removed: 2_000, stopped: 2_000, list: 1_000, status: 1_000 };

let daemon: CriDaemon;
let oci: WrappedOciRuntime;
let cni: HangingCni;
let leaks: LeakCheck;

before(async () => {
  if (skip !== false) return;
  daemon = await CriDaemon.start(async (root) => {
    oci = await WrappedOciRuntime.make(join(root.dir, 'oci'));
    cni = await HangingCni.make(join(root.dir, 'plugins'), root.cniConfDir);
    return { ociRuntime: oci.path, cniBinDirs: [cni.binDir] };
  });
  leaks = await LeakCheck.begin(daemon.root.leakRoots());
});

after(async () => {
  if (skip !== false) return;
  await daemon[Symbol.asyncDispose]();
});

interface Pod {
  readonly config: PodSandboxConfig;
  readonly sandboxId: string;
  readonly containers: readonly { readonly id: string; readonly pid: number }[];
}

async function runPod(name: string, containers: number): Promise<Pod> {
  const config = pod(daemon.root, name, { network: NamespaceMode.POD });
  const sandboxId = await daemon.runSandbox(config);
  const ran: { id: string; pid: number }[] = [];
  for (let index = 0; index < containers; index++) {
    const id = await daemon.run(sandboxId, config, container(`c${String(index)}`, ['sleep', '3600']));
    ran.push({ id, pid: await daemon.pidOf(id) });
  }
  return { config, sandboxId, containers: ran };
}

function only({ containers: [first] }: Pod): { readonly id: string; readonly pid: number } {
  assert.ok(first);
  return first;
}

/** As many side by side as a client such as kubelet has under way. */
async function fewAtOnce<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const rest = items.entries();
  const one = async (): Promise<void> => {
    for (const [index, item] of rest) results[index] = await work(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  return results;
}

type What = keyof typeof SLACK_MS;
type Times = Readonly<Record<What, readonly number[]>>;

/** Others end, are removed, and their pods are stopped; List and Status are asked for all the while, and for `atLeastMs`. */
async function measure(name: string, atLeastMs: number): Promise<Times> {
  const names = Array.from({ length: Math.ceil(CONTAINERS / PER_POD) }, (_, index) => `${name}-${String(index)}`);
  const pods = await fewAtOnce(names, (one) => runPod(one, PER_POD));
  const containers = pods.flatMap((one) => one.containers).slice(0, CONTAINERS);
  const list: number[] = [];
  const status: number[] = [];
  const beganMs = performance.now();
  const others = { end: false };
  const asking = (async () => {
    while (!others.end || performance.now() < beganMs + atLeastMs) {
      list.push(await timed(() => daemon.cri.listContainers(op, { filter: undefined })));
      list.push(await timed(() => daemon.cri.listPodSandbox(op, { filter: undefined })));
      const sandboxId = pods[0]?.sandboxId ?? '';
      status.push(await timed(() => daemon.cri.podSandboxStatus(op, { podSandboxId: sandboxId, verbose: false })));
      await sleep(ASK_EVERY_MS);
    }
  })();
  try {
    const exits: Promise<number>[] = [];
    for (const { id, pid } of containers) {
      exits.push(
        timed(async () => {
          process.kill(pid, 'SIGKILL');
          assert.equal((await daemon.exited(id)).exitCode, 137);
        }),
      );
      await sleep(EXIT_EVERY_MS);
    }
    const exited = await Promise.all(exits);
    const removed = await fewAtOnce(containers, ({ id }) => timed(() => daemon.remove(id)));
    const stopped = await fewAtOnce(pods, ({ sandboxId }) => timed(() => daemon.stopSandbox(sandboxId)));
    others.end = true;
    await asking;
    await fewAtOnce(pods, ({ sandboxId }) => daemon.endPod(sandboxId));
    return { exited, removed, stopped, list, status };
  } finally {
    others.end = true;
  }
}

const WHATS = Object.keys(SLACK_MS) as What[];

function tell(t: TestContext, words: string, times: Times): void {
  const figures = WHATS.map((what) => {
    const values = times[what];
    return `${what} p50 ${quantile(values, 0.5).toFixed(1)} p99 ${quantile(values, 0.99).toFixed(1)}`;
  });
  t.diagnostic(`${words}, ms: ${figures.join(', ')}`);
}

function assertAsFast(hung: Times, without: Times): void {
  for (const what of WHATS) {
    const [present, reference] = [quantile(hung[what], 0.99), quantile(without[what], 0.99)];
    assert.ok(
      present <= RATIO * reference + SLACK_MS[what],
      `${what}: p99 ${present.toFixed(1)} ms with the hung one, ${reference.toFixed(1)} ms without`,
    );
  }
}

async function pendingWords(): Promise<string> {
  return (await daemon.inspector.pendingWork(op))
    .map(({ message, lastError = '' }) => `${message} ${lastError}`)
    .join('\n');
}

/** Makes one hang, of which pending work says `words`, measures the others meanwhile, and lets it go on. */
async function whileHanging(
  name: string,
  words: RegExp,
  hang: (one: Pod) => Promise<() => Promise<void>>,
): Promise<Times> {
  const one = await runPod(`hung-${name}`, 1);
  const { id, pid } = only(one);
  const letGo = await hang(one);
  try {
    process.kill(pid, 'SIGKILL');
    assert.equal((await daemon.exited(id)).exitCode, 137, 'its own exit is visible all the same');
    // Its CNI DEL is a part of this.
    const ending = daemon.endPod(one.sandboxId);
    ending.catch(() => undefined);
    await eventually(pendingWords, (text) => words.test(text), `${name} that hangs`);
    const times = await measure(name, HANG_MS);
    assert.match(await pendingWords(), words, 'it hung all the while');
    await letGo();
    await eventually(pendingWords, (text) => text === '', 'the end of all that is pending');
    // Asked for before: finished by itself, if the caller's own time was not up before.
    await ending.catch(() => undefined);
    await daemon.endPod(one.sandboxId);
    return times;
  } finally {
    await letGo();
  }
}

test('one container whose end hangs delays no other: as fast as without it, in the same run', { skip }, async (t) => {
  // Once through, so that nobody is measured with what is made at the first use.
  await daemon.endPod((await runPod('first', 1)).sandboxId);
  const without = await measure('without', 0);
  tell(t, `${String(CONTAINERS)} containers without a hung one`, without);
  const cases = [
    {
      name: 'delete',
      words: /wrapped-runtime delete/,
      hang: async (one: Pod) => {
        const { id } = only(one);
        await oci.hang('delete', id);
        return () => oci.work('delete', id);
      },
    },
    {
      name: 'cni',
      words: /CNI plug-in slow DEL/,
      hang: async ({ sandboxId }: Pod) => {
        await cni.hang(sandboxId);
        return () => cni.work(sandboxId);
      },
    },
    {
      name: 'umount',
      // Under way, and between two tries.
      words: /waiting for the unmount of [^ ]*rootfs|umount2 [^ ]*rootfs: .* still hangs in the kernel/,
      hang: async (one: Pod) => {
        const { id } = only(one);
        const rootfs = join(daemon.root.state, 'containers', id, 'rootfs');
        assert.ok((await readdir(rootfs)).length > 0, 'it is mounted there');
        // The helper ends when it has had nothing to do for a while.
        await daemon.endPod((await runPod('helper', 1)).sandboxId);
        const delayed = await DelayedUmount.of(rootfs, daemon.pid);
        return () => delayed.end();
      },
    },
  ];
  const failures: string[] = [];
  for (const { name, words, hang } of cases) {
    if (name === 'umount' && !(await canDelayUmount())) {
      t.diagnostic('an unmount cannot be made to hang here: strace is not installed');
      continue;
    }
    const times = await whileHanging(name, words, hang);
    tell(t, `with one whose ${name} hangs`, times);
    try {
      assertAsFast(times, without);
    } catch (error) {
      failures.push(`${name}: ${String(error)}`);
    }
  }
  assert.deepEqual(failures, []);
  await leaks.assertNone();
});
