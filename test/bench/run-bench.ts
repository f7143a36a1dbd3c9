import { execFile } from '../../src/linux/exec.ts';
import { findProgram } from '../../src/lib/find-program.ts';
import { op } from '../support/gantryd.ts';
import { BenchRegistry } from './bench-registry.ts';
import { BuiltPackage } from './built-package.ts';
import { writeDocument } from './document.ts';
import { describeMachine } from './machine.ts';
import { measureCri } from './measure-cri.ts';
import { measureCommands } from './measure-commands.ts';
import { measureDeletion, measureUnpacking } from './measure-files.ts';
import { CRI_ROWS, OTHER_ROWS, type Network, type Row, type RowKey } from './rows.ts';
import { Samples, tableOf } from './samples.ts';

export interface BenchOptions {
  readonly ociRuntime: string;
  readonly rounds: number;
  readonly quick: boolean;
  readonly networks: readonly Network[];
  readonly wants: (row: Row) => boolean;
  readonly write: boolean;
  readonly progress: (line: string) => void;
}

const TITLE: Readonly<Record<Network, string>> = {
  same: 'Both on the same CNI configuration (bridge, host-local, portmap)',
  own: 'Each on its own default network',
};
const COMMANDS: readonly RowKey[] = ['get-pods', 'apply', 'delete'];
const PODS = { whole: 50, quick: 5 };

/** Prints the tables as they are ready. In network and mount namespaces of its own. */
export async function runBench(options: BenchOptions): Promise<void> {
  const { ociRuntime, quick, networks, progress } = options;
  await execFile(op, 'ip', ['link', 'set', 'lo', 'up']);
  const path = ociRuntime.includes('/') ? ociRuntime : await findProgram(ociRuntime);
  if (path === undefined) throw new Error(`there is no OCI runtime ${ociRuntime}`);
  const document = [...(await describeMachine(path)).map((line) => `- ${line}`), ''];
  const tell = (...lines: readonly string[]): void => {
    document.push(...lines, '');
    console.log(`\n${lines.join('\n')}`);
  };
  console.log(document.join('\n'));
  progress('the package is built');
  await using built = await BuiltPackage.make();
  const criRows = CRI_ROWS.filter(options.wants);
  if (criRows.length > 0) {
    await using registry = await BenchRegistry.start();
    for (const network of networks) {
      progress(TITLE[network]);
      const samples = await measureCri({
        network,
        registry,
        gantryd: built.program('gantryd'),
        ociRuntime: path,
        rounds: options.rounds,
        pods: quick ? PODS.quick : PODS.whole,
        wants: (key) => criRows.some((row) => row.key === key),
        progress,
      });
      tell(`## ${TITLE[network]}`, '', ...tableOf(criRows, samples, network, 'containerd'));
    }
  }
  const otherRows = OTHER_ROWS.filter(options.wants);
  if (otherRows.length > 0) {
    const samples = new Samples();
    const wants = (key: RowKey): boolean => otherRows.some((row) => row.key === key);
    if (COMMANDS.some(wants)) {
      await measureCommands({ built, ociRuntime: path, rounds: options.rounds, samples, wants, progress });
    }
    if (wants('delete-tree')) await measureDeletion({ quick, samples, progress });
    if (wants('unpack')) await measureUnpacking({ quick, samples, progress });
    tell('## Beside other tools', '', ...tableOf(otherRows, samples, 'own', 'the other'));
  }
  if (options.write) await writeDocument(document, `${String(options.rounds)} rounds${quick ? ', --quick' : ''}:`);
}
