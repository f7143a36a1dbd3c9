import type { Command } from 'commander';
import { parseDurationMs, parseTime, parseWhole } from '../arguments.ts';
import {
  namespaceOf,
  withNamespace,
  podName,
  type NamespaceOptions,
  type ProgramHost,
  type Run,
} from './shared-options.ts';

/** Lines of each log where a selector chooses the pods, as in kubectl: nobody wants all of all. */
const SELECTED_TAIL = 10;

export function addLogs(program: Command, host: ProgramHost, run: Run): void {
  withNamespace(program.command('logs'))
    .description('print what a container wrote, or several')
    .argument('[pod]', 'POD or pod/POD')
    .argument('[container]', 'the container (default: the first of the pod)')
    .option('-c, --container <name>', 'the container')
    .option('--all-containers', 'all containers of the pod')
    .option('-l, --selector <labels>', 'of all pods with these labels: app=web; ten lines each unless --tail is given')
    .option('--prefix', 'each line with its pod and container')
    .option('-f, --follow', 'go on as more is written')
    .option('--max-log-requests <count>', 'how many logs may be followed at once', '5')
    .option('-p, --previous', 'of the container before the last restart')
    .option('--tail <lines>', 'only so many lines from the end (-1: all)')
    .option('--since <duration>', 'only what is newer than this: 10s, 5m')
    .option('--since-time <time>', 'only what is newer than this RFC 3339 time')
    .option('--timestamps', 'each line with its time')
    .option('--limit-bytes <bytes>', 'stop after so many bytes')
    .action(
      (
        pod: string | undefined,
        container: string | undefined,
        o: NamespaceOptions & {
          container?: string;
          allContainers?: boolean;
          selector?: string;
          prefix?: boolean;
          maxLogRequests: string;
          follow?: boolean;
          previous?: boolean;
          tail?: string;
          since?: string;
          sinceTime?: string;
          timestamps?: boolean;
          limitBytes?: string;
        },
      ) =>
        run(async () => {
          const { logs } = await import('../commands/logs.ts');
          const name = container ?? o.container;
          const usualTail = o.selector === undefined ? -1 : SELECTED_TAIL;
          const tail = o.tail === undefined ? usualTail : parseWhole('--tail', o.tail, -1);
          return await logs(host.context(), {
            allContainers: o.allContainers === true,
            prefix: o.prefix === true,
            maxRequests: parseWhole('--max-log-requests', o.maxLogRequests, 1),
            ...(pod === undefined ? {} : { name: podName(pod) }),
            ...(o.selector === undefined ? {} : { selector: o.selector }),
            options: {
              namespace: namespaceOf(o),
              follow: o.follow === true,
              previous: o.previous === true,
              timestamps: o.timestamps === true,
              ...(name === undefined ? {} : { container: name }),
              ...(tail < 0 ? {} : { tailLines: tail }),
              ...(o.since === undefined ? {} : { sinceSeconds: Math.ceil(parseDurationMs('--since', o.since) / 1000) }),
              ...(o.sinceTime === undefined ? {} : { sinceTime: parseTime('--since-time', o.sinceTime) }),
              ...(o.limitBytes === undefined ? {} : { limitBytes: parseWhole('--limit-bytes', o.limitBytes, 1) }),
            },
          });
        }),
    );
}
