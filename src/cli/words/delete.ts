import type { Command } from 'commander';
import { invalidArgument } from '../../lib/errors.ts';
import { parseDurationMs, parseWhole } from '../arguments.ts';
import { parseFormat } from '../output/format.ts';
import {
  flagValue,
  isDryRun,
  namespaceOrAll,
  withManifests,
  withNamespace,
  type NamespaceOptions,
  type ProgramHost,
  type Run,
} from './shared-options.ts';

export function addDelete(program: Command, host: ProgramHost, run: Run): void {
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
}
