import type { Command } from 'commander';
import { namespaceOf, withNamespace, type NamespaceOptions, type ProgramHost, type Run } from './shared-options.ts';

export function addDescribe(program: Command, host: ProgramHost, run: Run): void {
  withNamespace(program.command('describe'))
    .description('show objects in words, with their events')
    .argument('<resource...>', 'pod NAME, pod/NAME …')
    .action((args: string[], o: NamespaceOptions) =>
      run(async () =>
        (await import('../commands/describe.ts')).describe(host.context(), args, { namespace: namespaceOf(o) }),
      ),
    );
}
