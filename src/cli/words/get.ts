import type { Command } from 'commander';
import { namespaceOrAll, withNamespace, type NamespaceOptions, type ProgramHost, type Run } from './shared-options.ts';

export function addGet(program: Command, host: ProgramHost, run: Run): void {
  withNamespace(program.command('get'))
    .description('list objects, or show some by name')
    .argument('<resource...>', 'pods, pod NAME, pod/NAME, pods,configmaps, all …')
    .option('-A, --all-namespaces', 'of all namespaces')
    .option(
      '-o, --output <format>',
      'wide, json, yaml, name, jsonpath=TEMPLATE, jsonpath-as-json=TEMPLATE or custom-columns=HEADER:PATH,…',
    )
    .option('-w, --watch', 'go on showing changes')
    .option('--watch-only', 'show changes, and not what is there already')
    .option('--show-labels', 'with a column of labels')
    .option('--sort-by <jsonpath>', 'in the order of a field: .metadata.creationTimestamp')
    .option('-l, --selector <labels>', 'only those with these labels: app=web,tier!=db')
    .option('--field-selector <fields>', 'only those with these fields: metadata.name=web')
    .option('--no-headers', 'rows without the heading')
    .option('--ignore-not-found', 'nothing found is no error')
    .action(
      (
        args: string[],
        o: NamespaceOptions & {
          output?: string;
          watch?: boolean;
          watchOnly?: boolean;
          showLabels?: boolean;
          sortBy?: string;
          selector?: string;
          fieldSelector?: string;
          headers: boolean;
          ignoreNotFound?: boolean;
        },
      ) =>
        run(async () => {
          const { get } = await import('../commands/get.ts');
          return await get(host.context(), args, {
            namespace: namespaceOrAll(o),
            output: o.output,
            watch: o.watchOnly === true ? 'only' : o.watch === true,
            showLabels: o.showLabels === true,
            noHeaders: !o.headers,
            ignoreNotFound: o.ignoreNotFound === true,
            ...(o.sortBy === undefined ? {} : { sortBy: o.sortBy }),
            ...(o.selector === undefined ? {} : { selector: o.selector }),
            ...(o.fieldSelector === undefined ? {} : { fieldSelector: o.fieldSelector }),
          });
        }),
    );
}
