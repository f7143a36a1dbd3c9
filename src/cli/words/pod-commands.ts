import type { Command } from 'commander';
import { invalidArgument } from '../../lib/errors.ts';
import { parseDurationMs, parseTime, parseWhole } from '../arguments.ts';
import { parseFormat } from '../output/format.ts';
import {
  namespaceOf,
  podName,
  RUNTIME_ENDPOINT,
  withNamespace,
  type NamespaceOptions,
  type ProgramHost,
  type Run,
} from './shared-options.ts';

/** Lines of each log where a selector chooses the pods, as in kubectl: nobody wants all of all. */
const SELECTED_TAIL = 10;

/** logs, exec, stop, explain: what is done to a pod that runs. */
export function addPodCommands(program: Command, host: ProgramHost, run: Run): void {
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

  withNamespace(program.command('exec'))
    .description(
      'run a command in a container, without a terminal; what it prints is shown at its end, up to 16 MiB of each stream',
    )
    .usage('[options] <pod> -- <command> [arg...]')
    .argument('<pod>', 'POD or pod/POD')
    .argument('<command...>', 'what to run, after --')
    .option('-c, --container <name>', 'the container (default: the first of the pod)')
    .option('-i, --stdin', 'pass stdin on (comes with streaming)')
    .option('-t, --tty', 'with a terminal (comes with streaming)')
    .option('--timeout <duration>', 'kill it after this time')
    .action(
      (
        pod: string,
        command: string[],
        o: NamespaceOptions & { container?: string; stdin?: boolean; tty?: boolean; timeout?: string },
      ) =>
        run(async () => {
          if (o.stdin === true || o.tty === true) {
            throw invalidArgument(
              'exec -i and -t come with streaming, which this release does not have yet; without them the command runs and its output is printed',
            );
          }
          const { exec } = await import('../commands/exec.ts');
          return await exec(host.context(), {
            namespace: namespaceOf(o),
            name: podName(pod),
            command: command[0] === '--' ? command.slice(1) : command,
            ...(o.container === undefined ? {} : { container: o.container }),
            ...(o.timeout === undefined
              ? {}
              : { timeoutSeconds: Math.ceil(parseDurationMs('--timeout', o.timeout) / 1000) }),
          });
        }),
    );

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
