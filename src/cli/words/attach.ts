import type { Command } from 'commander';
import { sessionOf, withNamespace, type ProgramHost, type Run, type SessionOptions } from './shared-options.ts';

export function addAttach(program: Command, host: ProgramHost, run: Run): void {
  withNamespace(program.command('attach'))
    .description('see what a container that runs prints, and with -i type into it; Ctrl-C without -t leaves it alone')
    .argument('<pod>', 'POD or pod/POD')
    .option('-c, --container <name>', 'the container (default: the first of the pod)')
    .option('-i, --stdin', 'pass stdin on, if the container was made with it')
    .option('-t, --tty', 'with -i: the container has this terminal, if it was made with one')
    .option('-q, --quiet', 'print only what the container says')
    .action((pod: string, o: SessionOptions) =>
      run(async () => {
        const { attach } = await import('../commands/attach.ts');
        return await attach(host.context(), sessionOf(pod, o));
      }),
    );
}
