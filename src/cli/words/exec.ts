import type { Command } from 'commander';
import { invalidArgument } from '../../lib/errors.ts';
import { parseDurationMs } from '../arguments.ts';
import {
  namespaceOf,
  withNamespace,
  podName,
  type NamespaceOptions,
  type ProgramHost,
  type Run,
} from './shared-options.ts';

export function addExec(program: Command, host: ProgramHost, run: Run): void {
  withNamespace(program.command('exec'))
    .description(
      'run a command in a container, without a terminal; what it prints is shown at its end, up to 16 MiB of each stream',
    )
    .usage('[options] <pod> -- <command> [arg...]')
    .argument('<pod>', 'POD or pod/POD')
    .argument('<command...>', 'what to run, after --')
    .option('-c, --container <name>', 'the container (default: the first of the pod)')
    .option('-i, --stdin', 'pass stdin on (comes with streaming)')
    .option('-t, --tty', 'with a terminal (comes with streaming)')
    .option('--timeout <duration>', 'kill it after this time')
    .action(
      (
        pod: string,
        command: string[],
        o: NamespaceOptions & { container?: string; stdin?: boolean; tty?: boolean; timeout?: string },
      ) =>
        run(async () => {
          if (o.stdin === true || o.tty === true) {
            throw invalidArgument(
              'exec -i and -t come with streaming, which this release does not have yet; without them the command runs and its output is printed',
            );
          }
          const { exec } = await import('../commands/exec.ts');
          return await exec(host.context(), {
            namespace: namespaceOf(o),
            name: podName(pod),
            command: command[0] === '--' ? command.slice(1) : command,
            ...(o.container === undefined ? {} : { container: o.container }),
            ...(o.timeout === undefined
              ? {}
              : { timeoutSeconds: Math.ceil(parseDurationMs('--timeout', o.timeout) / 1000) }),
          });
        }),
    );
}
