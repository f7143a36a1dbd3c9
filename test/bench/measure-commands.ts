import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execFile } from '../../src/linux/exec.ts';
import { busyboxRootfs } from '../support/busybox.ts';
import { Gantryd, IMAGE, op, podOf, SLEEP } from '../support/gantryd.ts';
import { tarOf } from '../support/tar.ts';
import type { BuiltPackage } from './built-package.ts';
import { Podman } from './podman.ts';
import type { RowKey } from './rows.ts';
import type { Samples } from './samples.ts';

export interface CommandMeasurement {
  readonly built: BuiltPackage;
  readonly ociRuntime: string;
  readonly rounds: number;
  readonly samples: Samples;
  readonly wants: (row: RowKey) => boolean;
  readonly progress: (line: string) => void;
}

const SLOW_FACTOR = 4;

/** The commands as a person types them, each a process of its own. */
export async function measureCommands(options: CommandMeasurement): Promise<void> {
  const { built, ociRuntime, wants, progress } = options;
  const programs = { gantry: built.program('gantry'), gantryd: built.program('gantryd') };
  await using daemon = await Gantryd.withImage({ programs, flags: [`--oci-runtime=${ociRuntime}`] });
  if (wants('get-pods')) {
    progress('gantry get pods');
    await repeat(options, async (record) => {
      await record('get-pods', 'gantry', () => daemon.gantry('get', 'pods'));
      await record('get-pods', 'other', () => execFile(op, process.execPath, ['-e', '0']));
    });
  }
  if (wants('apply') || wants('delete')) await measurePods(options, daemon);
}

/** The same pod by `gantry apply` and `delete`, and by podman where there is one. */
async function measurePods(options: CommandMeasurement, daemon: Gantryd): Promise<void> {
  const { ociRuntime, samples, progress } = options;
  const folder = join(daemon.root.dir, 'podman');
  await mkdir(folder);
  const shared = { script: SLEEP, volumeMounts: [{ name: 'shared', mountPath: '/shared' }] };
  const pod = podOf('bench', [shared, shared], { volumes: [{ name: 'shared', emptyDir: {} }] });
  const manifest = join(folder, 'pod.json');
  await writeFile(manifest, JSON.stringify(pod));
  await using podman = await Podman.open(folder, ociRuntime);
  if (podman === undefined)
    progress('podman is not installed: there is nothing to measure gantry apply and delete against');
  else await podman.importImage(await rootfsTar(folder), IMAGE);
  progress('one pod, applied and deleted');
  const downs: number[] = [];
  await repeat(options, async (record) => {
    await record('apply', 'gantry', () => daemon.gantry('apply', '-f', manifest, '--wait'));
    await record('delete', 'gantry', () => daemon.gantry('delete', 'pod', 'bench'));
    if (podman === undefined) return;
    await record('apply', 'other', () => podman.play(manifest));
    const began = performance.now();
    await podman.down(manifest);
    downs.push(performance.now() - began);
  });
  // At random it takes seconds more: the fast case is the mark.
  const fast = Math.min(...downs) * SLOW_FACTOR;
  for (const ms of downs.filter((value) => value < fast)) samples.add('delete', 'other', ms);
}

async function rootfsTar(folder: string): Promise<string> {
  const path = join(folder, 'rootfs.tar');
  await writeFile(path, await tarOf(await busyboxRootfs()));
  return path;
}

type Record = (row: RowKey, party: 'gantry' | 'other', work: () => Promise<unknown>) => Promise<void>;

/** The first turn is not counted. */
async function repeat({ rounds, samples }: CommandMeasurement, turn: (record: Record) => Promise<void>): Promise<void> {
  for (let i = -1; i < rounds; i++) {
    await turn(async (row, party, work) => {
      const began = performance.now();
      await work();
      if (i >= 0) samples.add(row, party, performance.now() - began);
    });
  }
}
