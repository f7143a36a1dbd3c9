import type { Command } from 'commander';
import {
  namespaceOrAll,
  podName,
  withNamespace,
  type NamespaceOptions,
  type ProgramHost,
  type Run,
} from './shared-options.ts';

export function addTop(program: Command, host: ProgramHost, run: Run): void {
  const top = program.command('top').description('what is used now');
  withNamespace(top.command('pods').alias('pod').alias('po'))
    .description('processor time and memory that pods use now')
    .argument('[pod]')
    .option('-A, --all-namespaces', 'of all namespaces')
    .option('-l, --selector <labels>', 'only those with these labels: app=web,tier!=db')
    .option('-c, --containers', 'a row for each container')
    .option('--sort-by <column>', 'cpu or memory, the most first')
    .option('--sum', 'with the sums')
    .option('--no-headers', 'rows without the heading')
    .action(
      (
        pod: string | undefined,
        o: NamespaceOptions & {
          selector?: string;
          containers?: boolean;
          sortBy?: string;
          sum?: boolean;
          headers: boolean;
        },
      ) =>
        run(async () => {
          const { topPods } = await import('../commands/top.ts');
          return await topPods(host.context(), pod === undefined ? undefined : podName(pod), {
            namespace: namespaceOrAll(o),
            containers: o.containers === true,
            noHeaders: !o.headers,
            sum: o.sum === true,
            ...(o.selector === undefined ? {} : { selector: o.selector }),
            ...(o.sortBy === undefined ? {} : { sortBy: o.sortBy }),
          });
        }),
    );
}
