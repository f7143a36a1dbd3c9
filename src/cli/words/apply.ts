import type { Command } from 'commander';
import { parseDurationMs } from '../arguments.ts';
import { parseFormat } from '../output/format.ts';
import {
  isDryRun,
  namespaceOf,
  withManifests,
  withNamespace,
  type NamespaceOptions,
  type ProgramHost,
  type Run,
} from './shared-options.ts';

export function addApply(program: Command, host: ProgramHost, run: Run): void {
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
}
