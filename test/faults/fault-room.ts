import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeBusyboxRootfs } from '../../scripts/busybox-rootfs.ts';
import { messageOf } from '../../src/lib/errors.ts';
import { findProgram } from '../../src/lib/find-program.ts';
import { execFile } from '../../src/linux/exec.ts';
import { IMAGE, op, openRuntime } from '../integration/runtime/runtime-fixture.ts';
import type { Image } from '../support/images.ts';
import { LeakCheck } from '../support/leak-check.ts';
import { markedProcesses } from '../support/leak-probes.ts';
import { TestRegistry } from '../support/registry.ts';
import { TempRoot } from '../support/temp-root.ts';
import type { LifeKind, Meanwhile } from './cases.ts';
import { liveCheckpoint } from './checkpoint-life.ts';
import { FaultDaemon } from './fault-daemon.ts';
import { liveImage, twoLayerImage } from './image-life.ts';
import { plansOf, type FaultLife, type LifeOutcome } from './lives.ts';
import { livePod } from './pod-life.ts';

/** What is released in the background takes its time, the more so under a full processor. */
const SETTLE_MS = 60_000;
const LOOK_AGAIN_MS = 200;
const INFRA = 'catatonit';

/**
 * A host's worth of places for one daemon after the other, with what a clean one looks like. It wants a network namespace of its own:
 * what the first pod switches on and the last one off is shared by all who are in it.
 */
export class FaultRoom implements AsyncDisposable {
  readonly #root: TempRoot;
  readonly #daemon: FaultDaemon;
  readonly #registry: TestRegistry;
  readonly #image: Image;
  #leaks: LeakCheck | undefined;
  #meanwhile: Meanwhile | undefined;
  #lives = 0;

  private constructor(root: TempRoot, registry: TestRegistry, image: Image) {
    this.#root = root;
    this.#registry = registry;
    this.#image = image;
    this.#daemon = new FaultDaemon(root, () => this.#whileDead());
  }

  static async open(): Promise<FaultRoom> {
    const root = await TempRoot.make();
    const registry = await TestRegistry.start();
    const image = await twoLayerImage();
    registry.push('some/image', image, 'v1');
    await root.allowPlainHttp(registry.host);
    await importBusybox(root);
    const room = new FaultRoom(root, registry, image);
    // What is made once and kept is not to be taken for a leak.
    await livePod(room.#daemon, root, 'first');
    await liveImage(room.#daemon, `${registry.host}/some/image:v1`, image);
    room.#leaks = await LeakCheck.begin(root.leakRoots());
    return room;
  }

  /** Never throws: what goes wrong is the outcome. */
  async run(life: FaultLife): Promise<LifeOutcome> {
    const startMs = performance.now();
    const lacking = await this.#lacking(kindOf(life));
    if (lacking !== undefined) return { killedAt: [], seconds: 0, lacking };
    await this.#daemon.kill();
    this.#daemon.plan(
      plansOf(life),
      life.cases.some(({ variant }) => variant === 'again'),
    );
    this.#meanwhile = life.cases.find(({ meanwhile }) => meanwhile !== undefined)?.meanwhile;
    const failure = await this.#live(life).then(
      () => undefined,
      (error: unknown) => messageOf(error),
    );
    return {
      killedAt: this.#daemon.killedAt,
      seconds: (performance.now() - startMs) / 1000,
      ...(failure === undefined ? {} : { failure }),
    };
  }

  async #live(life: FaultLife): Promise<void> {
    const name = `life-${String(++this.#lives)}`;
    const kind = kindOf(life);
    switch (kind) {
      case 'image':
        await liveImage(this.#daemon, `${this.#registry.host}/some/image:v1`, this.#image);
        break;
      case 'checkpoint':
        await liveCheckpoint(this.#daemon, this.#root, name);
        break;
      case 'pod':
      case 'mapped-pod': {
        const startMayFail = life.cases.some((one) => one.startMayFail);
        await livePod(this.#daemon, this.#root, name, { startMayFail, mapped: kind === 'mapped-pod' });
      }
    }
    await this.#nothingLeft();
  }

  /** What this machine has not that such a life needs; undefined: it has all of it. */
  async #lacking(kind: LifeKind): Promise<string | undefined> {
    if (kind === 'checkpoint') {
      const criu = await findProgram('criu');
      if (criu === undefined) return 'needs CRIU';
      return (await execFile(op, criu, ['check'])).code === 0 ? undefined : 'CRIU does not work on this kernel';
    }
    if (kind !== 'mapped-pod') return undefined;
    const { runtimeHandlers } = await this.#daemon.ask(({ runtime }) => runtime.status(op, { verbose: false }));
    const can = runtimeHandlers.find(({ name }) => name === '')?.features?.userNamespaces === true;
    return can ? undefined : 'needs an OCI runtime with user namespaces (GANTRY_TEST_OCI_RUNTIME)';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#daemon[Symbol.asyncDispose]();
    await this.#registry[Symbol.asyncDispose]();
    await this.#root[Symbol.asyncDispose]();
  }

  /** A daemon that dies while we look is started again: only a living one tidies up. */
  async #nothingLeft(): Promise<void> {
    const startMs = performance.now();
    for (;;) {
      await this.#daemon.ask(({ runtime }) => runtime.version(op, { version: '' }));
      try {
        await this.#leaks?.assertNone({ settleMs: 0 });
        await assertPlainNetwork();
        return;
      } catch (error) {
        if (this.#daemon.quietSinceMs(startMs) > SETTLE_MS) throw error;
      }
      await new Promise((next) => setTimeout(next, LOOK_AGAIN_MS));
    }
  }

  async #whileDead(): Promise<void> {
    const { state, instance } = this.#root;
    switch (this.#meanwhile) {
      case 'orphan':
        await mkdir(join(state, 'sandboxes', randomBytes(32).toString('hex')), { recursive: true });
        break;
      case 'infra-dies':
        for (const { pid, comm } of await markedProcesses([instance])) {
          if (comm === INFRA) process.kill(pid, 'SIGKILL');
        }
        break;
      case undefined:
    }
  }
}

/** Cases that share a life are all of one kind. */
function kindOf({ cases }: FaultLife): LifeKind {
  return cases[0]?.life ?? 'pod';
}

/** What the first pod switches on or makes and the last one takes back, of the namespace that is the room's alone. */
async function assertPlainNetwork(): Promise<void> {
  const forwarding = (await readFile('/proc/sys/net/ipv4/ip_forward', 'utf8')).trim();
  const tables = await Promise.all(['nat', 'filter'].map((table) => execFile(op, 'iptables', ['-t', table, '-S'])));
  const lines = tables.flatMap(({ stdout }) => stdout.split('\n'));
  const left = lines.filter((line) => line !== '' && !line.startsWith('-P '));
  assert.deepEqual({ forwarding, left }, { forwarding: '0', left: [] });
}

async function importBusybox(root: TempRoot): Promise<void> {
  const { data, state, netnsDir, instance, cniConfDir, registryConfigDir, criSocket } = root;
  // In this process, which is to be in no scope of a daemon's.
  const plain = { cgroupDriver: 'cgroupfs', cgroupParent: root.plainCgroupParent } as const;
  const opened = await openRuntime({
    ...{ data, state, netnsDir, instance, cniConfDir, registryConfigDir, criSocket },
    ...plain,
  });
  const rootfs = join(root.dir, 'rootfs');
  await mkdir(rootfs);
  await makeBusyboxRootfs(rootfs);
  await opened.runtime.images.import(op, { kind: 'rootfs', path: rootfs, name: IMAGE });
  await opened.close();
}
