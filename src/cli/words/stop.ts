import type { Command } from 'commander';
import { parseWhole } from '../arguments.ts';
import { namespaceOf, withNamespace, type NamespaceOptions, type ProgramHost, type Run } from './shared-options.ts';

export function addStop(program: Command, host: ProgramHost, run: Run): void {
  withNamespace(program.command('stop'))
    .description('end containers: stop signal, wait, SIGKILL; the pod and its restart policy stay')
    .argument('<container...>', 'container ids, POD/CONTAINER, or container names')
    .option('-t, --time <seconds>', 'how long to wait before SIGKILL (default: the grace period of the pod)')
    .option('-s, --signal <signal>', "signal to send instead of the container's own")
    .action((containers: string[], o: NamespaceOptions & { time?: string; signal?: string }) =>
      run(async () => {
        const { stop } = await import('../commands/stop.ts');
        return await stop(host.context(), containers, {
          namespace: namespaceOf(o),
          ...(o.time === undefined ? {} : { timeoutSeconds: parseWhole('--time', o.time) }),
          ...(o.signal === undefined ? {} : { signal: o.signal }),
        });
      }),
    );
}
