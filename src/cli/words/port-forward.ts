import type { Command } from 'commander';
import {
  namespaceOf,
  podName,
  withNamespace,
  type NamespaceOptions,
  type ProgramHost,
  type Run,
} from './shared-options.ts';

export function addPortForward(program: Command, host: ProgramHost, run: Run): void {
  withNamespace(program.command('port-forward'))
    .description('local ports that lead to ports of a pod, until Ctrl-C or its end')
    .argument('<pod>', 'POD or pod/POD')
    .argument('<port...>', '[LOCAL:]REMOTE; :REMOTE takes any local port that is free, and REMOTE may be a name')
    .option('--address <addresses>', 'where to listen, separated by commas: IP addresses or localhost', 'localhost')
    .action((pod: string, ports: string[], o: NamespaceOptions & { address: string }) =>
      run(async () => {
        const { portForward } = await import('../commands/port-forward.ts');
        const options = { namespace: namespaceOf(o), name: podName(pod), ports, address: o.address };
        return await portForward(host.context(), options);
      }),
    );
}
