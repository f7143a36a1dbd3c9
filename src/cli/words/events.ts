import type { Command } from 'commander';
import { namespaceOrAll, withNamespace, type NamespaceOptions, type ProgramHost, type Run } from './shared-options.ts';

export function addEvents(program: Command, host: ProgramHost, run: Run): void {
  withNamespace(program.command('events'))
    .description('what happened, oldest first')
    .option('-A, --all-namespaces', 'of all namespaces')
    .option('--for <object>', 'of one object: pod/NAME')
    .option('--types <types>', 'Normal, Warning or both')
    .option('-w, --watch', 'go on showing events')
    .option('--no-headers', 'rows without the heading')
    .option('-o, --output <format>', 'json or yaml')
    .action(
      (o: NamespaceOptions & { for?: string; types?: string; watch?: boolean; headers: boolean; output?: string }) =>
        run(async () => {
          const { events } = await import('../commands/events.ts');
          return await events(host.context(), {
            namespace: namespaceOrAll(o),
            watch: o.watch === true,
            noHeaders: !o.headers,
            output: o.output,
            ...(o.for === undefined ? {} : { forObject: o.for }),
            ...(o.types === undefined ? {} : { types: o.types }),
          });
        }),
    );
}
