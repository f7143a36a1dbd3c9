import type { Command } from 'commander';
import { parseFormat } from '../output/format.ts';
import {
  namespaceOf,
  withNamespace,
  RUNTIME_ENDPOINT,
  type NamespaceOptions,
  type ProgramHost,
  type Run,
} from './shared-options.ts';

export function addExplain(program: Command, host: ProgramHost, run: Run): void {
  withNamespace(program.command('explain'))
    .description("a pod's or container's life so far: what happened, when, why, how it ended, what is still pending")
    .argument('<resource...>', 'pod NAME, or container ID|NAME|POD/NAME')
    .option('--uid <uid>', 'an earlier pod of the same name')
    .option(...RUNTIME_ENDPOINT)
    .option('-o, --output <format>', 'json or yaml')
    .action((args: string[], o: NamespaceOptions & { uid?: string; output?: string; runtimeEndpoint?: string }) =>
      run(async () => {
        const { explain } = await import('../commands/explain.ts');
        return await explain(host.context(), args, {
          namespace: namespaceOf(o),
          format: parseFormat(o.output),
          ...(o.uid === undefined ? {} : { uid: o.uid }),
          ...(o.runtimeEndpoint === undefined ? {} : { runtimeEndpoint: o.runtimeEndpoint }),
        });
      }),
    );
}
