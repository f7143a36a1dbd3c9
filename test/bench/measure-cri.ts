import { mkdir } from 'node:fs/promises';
import { execFile } from '../../src/linux/exec.ts';
import { op } from '../support/gantryd.ts';
import { TempRoot } from '../support/temp-root.ts';
import type { BenchRegistry } from './bench-registry.ts';
import type { Network, RowKey } from './rows.ts';
import { Samples } from './samples.ts';
import { containerdSide, gantrySide, type Side } from './side.ts';
import { Workload } from './workload.ts';

export interface CriMeasurement {
  readonly network: Network;
  readonly ociRuntime: string;
  readonly registry: BenchRegistry;
  /** The program. */
  readonly gantryd: string;
  readonly rounds: number;
  readonly pods: number;
  readonly wants: (row: RowKey) => boolean;
  readonly progress: (line: string) => void;
}

/** Not counted: the first pods bring the bridge, caches and compiled code. */
const WARM_UP_ROUNDS = 3;
/** Of the rows of many pods: each takes half a minute. */
const MANY_EVERY = 15;
const RESTARTS = 3;
const SUBNET = { gantry: '10.88.0.0/22', other: '10.89.0.0/22' } as const;
const ROUND: readonly RowKey[] = [
  ...(['run-sandbox', 'create-start', 'exec', 'stop-container', 'stop-remove-sandbox', 'container-status'] as const),
];
const MANY: readonly RowKey[] = ['fill-50', 'list-50', 'memory-50', 'daemon-start', 'remove-50'];

/**
 * Both sides run all the time, in the same network namespace, and are asked in turns, each first as often as the other: what the machine does
 * meanwhile meets both.
 */
export async function measureCri(options: CriMeasurement): Promise<Samples> {
  const { rounds, pods, registry, progress, wants } = options;
  await using stack = new AsyncDisposableStack();
  const sides = [stack.use(await openSide('gantry', options)), stack.use(await openSide('other', options))] as const;
  const workloads = sides.map((side) => new Workload(side, registry.image));
  for (const [i, side] of sides.entries()) {
    await side.start();
    await workloads[i]?.prepare();
  }
  const inTurns = async (turn: number, work: (workload: Workload) => Promise<void>): Promise<void> => {
    for (const workload of turn % 2 === 0 ? workloads : workloads.toReversed()) await work(workload);
  };
  const samples = new Samples();
  const repeat = async (what: string, work: (workload: Workload, into: Samples) => Promise<void>): Promise<void> => {
    progress(`${what}, ${String(rounds)} rounds`);
    const thrownAway = new Samples();
    for (let i = -WARM_UP_ROUNDS; i < rounds; i++) {
      await inTurns(i, (workload) => work(workload, i < 0 ? thrownAway : samples));
    }
  };
  if (ROUND.some(wants)) await repeat('one pod at a time', (workload, into) => workload.round(into));
  if (wants('run-sandbox-host-network')) {
    await repeat("the host's network", (workload, into) => workload.hostNetworkRound(into));
  }
  if (wants('pull')) {
    await repeat('pulls', async (workload, into) => workload.pullRound(into, await registry.smallImage()));
  }
  if (MANY.some(wants)) {
    for (let i = 0; i < Math.max(1, Math.round(rounds / MANY_EVERY)); i++) {
      progress(`${String(pods)} pods`);
      await inTurns(i, (workload) => workload.many(samples, pods, RESTARTS));
    }
  }
  return samples;
}

async function openSide(party: 'gantry' | 'other', options: CriMeasurement): Promise<Side> {
  const { network, ociRuntime, registry } = options;
  const root = await TempRoot.make();
  try {
    // As on a machine: state is in memory, data is on a disk.
    await mkdir(root.state, { recursive: true });
    await execFile(op, 'mount', ['-t', 'tmpfs', 'bench-state', root.state]);
    await root.allowPlainHttp(registry.host);
    // What containerd's own set-up script writes is a bridge with a masquerade rule for each pod, host-local and portmap, too.
    if (network === 'same' || party === 'other') await root.writeCniConfig(SUBNET[party], { ipMasq: true });
    const settings = { root, ociRuntime, network, image: registry.image.name };
    return party === 'gantry' ? gantrySide(options.gantryd, settings) : await containerdSide(settings);
  } catch (error) {
    await root[Symbol.asyncDispose]();
    throw error;
  }
}
