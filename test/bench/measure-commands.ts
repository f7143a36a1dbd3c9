import { execFile } from '../../src/linux/exec.ts';
import { Gantryd, op, podOf, SLEEP } from '../support/gantryd.ts';
import type { BuiltPackage } from './built-package.ts';
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
  if (wants('apply') || wants('delete')) {
    progress('gantry apply and delete');
    const pod = podOf(
      'bench',
      [
        { script: SLEEP, volumeMounts: [{ name: 'shared', mountPath: '/shared' }] },
        { script: SLEEP, volumeMounts: [{ name: 'shared', mountPath: '/shared' }] },
      ],
      { volumes: [{ name: 'shared', emptyDir: {} }] },
    );
    await repeat(options, async (record) => {
      await record('apply', 'gantry', () => daemon.apply(pod, '--wait'));
      await record('delete', 'gantry', () => daemon.gantry('delete', 'pod', 'bench'));
    });
  }
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
