import type { Command } from 'commander';
import { invalidArgument } from '../../lib/errors.ts';
import { parseDurationMs, parseWhole } from '../arguments.ts';
import { parseFormat } from '../output/format.ts';
import {
  flagValue,
  isDryRun,
  namespaceOf,
  namespaceOrAll,
  withManifests,
  withNamespace,
  type NamespaceOptions,
  type ProgramHost,
  type Run,
} from './shared-options.ts';

/** apply, get, describe, delete, events: what is done to objects of the API. */
export function addObjectCommands(program: Command, host: ProgramHost, run: Run): void {
  withManifests(withNamespace(program.command('apply')))
    .description('make objects as manifests say')
    .option('--wait', 'wait until the pods are ready')
    .option('--timeout <duration>', 'how long to wait with --wait', '60s')
    .option('--dry-run [mode]', 'check everything, store nothing (none, client or server)')
    .option('-o, --output <format>', 'json, yaml or name')
    .action(
      (
        o: NamespaceOptions & {
          filename: string[];
          recursive?: boolean;
          wait?: boolean;
          timeout: string;
          dryRun?: string | boolean;
          output?: string;
        },
      ) =>
        run(async () => {
          const { apply } = await import('../commands/apply.ts');
          return await apply(host.context(), {
            files: o.filename,
            recursive: o.recursive === true,
            namespace: namespaceOf(o),
            namespaceGiven: o.namespace !== undefined,
            wait: o.wait === true,
            timeoutMs: parseDurationMs('--timeout', o.timeout),
            dryRun: isDryRun(o.dryRun),
            format: parseFormat(o.output),
          });
        }),
    );

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

  withNamespace(program.command('describe'))
    .description('show objects in words, with their events')
    .argument('<resource...>', 'pod NAME, pod/NAME …')
    .action((args: string[], o: NamespaceOptions) =>
      run(async () =>
        (await import('../commands/describe.ts')).describe(host.context(), args, { namespace: namespaceOf(o) }),
      ),
    );

  withManifests(withNamespace(program.command('delete')))
    .description('end objects and wait until they are gone')
    .argument('[resource...]', 'pod NAME, pod/NAME, pods --all …')
    .option('-A, --all-namespaces', 'of all namespaces (with --all or -l)')
    .option('--all', 'all objects of the kind')
    .option('-l, --selector <labels>', 'those with these labels')
    .option('--grace-period <seconds>', "how long a pod may take to end (default: the pod's own; 0 kills at once)")
    .option('--now', 'the same as --grace-period=1')
    .option('--force', 'with --grace-period=0: accepted for habit, pods end in order all the same')
    .option('--wait [yes]', 'wait until the objects are gone (default; --wait=false returns at once)')
    .option('--timeout <duration>', 'how long to wait (default: no limit)', '0')
    .option('--dry-run [mode]', 'say what would be deleted (none, client or server)')
    .option('--ignore-not-found', 'what is not there is no error')
    .option('-o, --output <format>', 'name')
    .action(
      (
        args: string[],
        o: NamespaceOptions & {
          filename: string[];
          recursive?: boolean;
          all?: boolean;
          selector?: string;
          gracePeriod?: string;
          now?: boolean;
          force?: boolean;
          wait?: string | boolean;
          timeout: string;
          dryRun?: string | boolean;
          ignoreNotFound?: boolean;
          output?: string;
        },
      ) =>
        run(async () => {
          const { deleteObjects } = await import('../commands/delete.ts');
          if (o.now === true && o.gracePeriod !== undefined)
            throw invalidArgument('--now and --grace-period cannot be specified together');
          const grace =
            o.now === true
              ? 1
              : o.gracePeriod === undefined
                ? o.force === true
                  ? 0
                  : undefined
                : parseWhole('--grace-period', o.gracePeriod, -1);
          return await deleteObjects(host.context(), args, {
            files: o.filename,
            recursive: o.recursive === true,
            namespace: namespaceOrAll(o),
            all: o.all === true,
            wait: flagValue('--wait', o.wait, true),
            timeoutMs: parseDurationMs('--timeout', o.timeout),
            dryRun: isDryRun(o.dryRun),
            ignoreNotFound: o.ignoreNotFound ?? o.all ?? false,
            nameOnly: parseFormat(o.output) === 'name',
            ...(o.selector === undefined ? {} : { selector: o.selector }),
            ...(grace === undefined || grace < 0 ? {} : { gracePeriodSeconds: grace }),
          });
        }),
    );

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
