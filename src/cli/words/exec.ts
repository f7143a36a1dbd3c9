import type { Command } from 'commander';
import { sessionOf, withNamespace, type ProgramHost, type Run, type SessionOptions } from './shared-options.ts';

export function addExec(program: Command, host: ProgramHost, run: Run): void {
  withNamespace(program.command('exec'))
    .description("run a command in a container; its exit code becomes gantry's")
    .usage('[options] <pod> -- <command> [arg...]')
    .argument('<pod>', 'POD or pod/POD')
    .argument('[command...]', 'what to run, after --')
    .option('-c, --container <name>', 'the container (default: the first of the pod)')
    .option('-i, --stdin', 'pass stdin on')
    .option('-t, --tty', 'with -i: the command has this terminal')
    .option('-q, --quiet', 'print only what the command says')
    .action((pod: string, command: string[], o: SessionOptions) =>
      run(async () => {
        const { exec } = await import('../commands/exec.ts');
        return await exec(host.context(), {
          command: command[0] === '--' ? command.slice(1) : command,
          ...sessionOf(pod, o),
        });
      }),
    );
}
