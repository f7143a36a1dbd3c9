import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { makeBusyboxRootfs } from '../../scripts/busybox-rootfs.ts';
import { messageOf } from '../../src/lib/errors.ts';
import { op, openRuntime } from '../integration/runtime/runtime-fixture.ts';
import { LeakCheck } from '../support/leak-check.ts';
import { TempRoot } from '../support/temp-root.ts';
import { KilledDaemon } from './killed-daemon.ts';
import { Kubelet } from './kubelet.ts';
import { Random } from './random.ts';
import { IMAGE, soakPod } from './soak-pod.ts';
import { SoakTally } from './tally.ts';

export interface SoakOptions {
  readonly seed: number;
  /** Pods side by side. */
  readonly parallel: number;
  /** It goes on until there were so many of both … */
  readonly containers: number;
  readonly kills: number;
  /** … or until so much time has passed; then what runs is finished without more kills. */
  readonly seconds: number;
  /** Leaves everything as it is when something was wrong. */
  readonly keep?: boolean;
  /** Ends it early: what runs is finished. */
  readonly signal?: AbortSignal;
  progress?(line: string): void;
}

export interface SoakOutcome {
  readonly tally: SoakTally;
  readonly table: readonly string[];
  readonly violations: readonly string[];
  /** Everything is still there, below this folder. */
  readonly kept?: string;
}

const PROGRESS_EVERY_MS = 10_000;

/** Runs pods whose ends are known on a daemon that is killed all the time. Throws only when it cannot even begin. */
export async function runSoak(options: SoakOptions): Promise<SoakOutcome> {
  const random = new Random(options.seed);
  const subnet = `10.${String(random.between(130, 250))}.${String(random.between(0, 250))}.0/24`;
  const tally = new SoakTally();
  const root = await TempRoot.make();
  const daemon = new KilledDaemon(root);
  let keep = false;
  try {
    await root.writeCniConfig(subnet);
    await importImage(root);
    await daemon.start();
    const kubelet = new Kubelet(daemon, tally);
    const deps = { kubelet, tally, root };
    // The first pods bring along what stays for all later ones: the bridge, host-local's folder.
    for (let first = 0; first < 3; first++) await soakPod(deps, new Random(first), `first-${String(first)}`);
    const leaks = await LeakCheck.begin(root.leakRoots());

    const beganMs = performance.now();
    const over = (): boolean => {
      const late = performance.now() - beganMs > options.seconds * 1000;
      return (
        late ||
        options.signal?.aborted === true ||
        (tally.containers >= options.containers && daemon.kills >= options.kills)
      );
    };
    const enough = new AbortController();
    const killing = daemon.killAgainAndAgain(random.fork(), enough.signal);
    const progress = setInterval(() => {
      const { containers, broken, violations } = tally;
      options.progress?.(
        `${containers} containers, ${daemon.kills} kills, ${broken} calls broken off, ${violations.length} violations`,
      );
    }, PROGRESS_EVERY_MS);
    const pods = random.fork();
    let count = 0;
    const lane = async (): Promise<void> => {
      while (!over()) {
        const name = `pod-${String(count++)}`;
        await soakPod(deps, pods.fork(), name);
      }
    };
    const lanes = Promise.all(Array.from({ length: options.parallel }, lane));
    const timer = setTimeout(() => enough.abort(), options.seconds * 1000);
    options.signal?.addEventListener('abort', () => enough.abort());
    await Promise.race([lanes, killing]);
    await lanes;
    clearTimeout(timer);
    clearInterval(progress);
    enough.abort();
    await killing;
    const left = await kubelet.left();
    if (left.length > 0) tally.violations.push(`still listed at the end: ${left.join(', ')}`);
    await leaks.assertNone().catch((error: unknown) => {
      tally.leaks++;
      tally.violations.push(messageOf(error));
    });
    const table = tally.table(daemon.kills, (performance.now() - beganMs) / 1000);
    keep = options.keep === true && tally.violations.length > 0;
    return { tally, table, violations: tally.violations, ...(keep ? { kept: root.dir } : {}) };
  } finally {
    await daemon[Symbol.asyncDispose]();
    if (!keep) await root[Symbol.asyncDispose]();
  }
}

async function importImage(root: TempRoot): Promise<void> {
  const rootfs = join(root.dir, 'rootfs');
  await mkdir(rootfs);
  await makeBusyboxRootfs(rootfs);
  const opened = await openRuntime(root);
  await opened.runtime.images.import(op, { kind: 'rootfs', path: rootfs, name: IMAGE });
  await opened.runtime.recovered;
  await opened.close();
}
