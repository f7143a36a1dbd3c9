import { resolve } from 'node:path';
import { Command } from 'commander';
import { invalidArgument } from '../lib/errors.ts';
import { parseDurationMs, parseWhole } from './arguments.ts';
import type { CommandWords } from './commands/completion.ts';
import type { CliContext, ExitCode } from './context.ts';
import { parseFormat } from './output/format.ts';

/** What the program needs to run a command, and how it tells its exit code. */
export interface ProgramHost {
  context(): CliContext;
  finished(code: ExitCode): void;
}

interface NamespaceOptions {
  namespace?: string;
  allNamespaces?: boolean;
}

const DEFAULT_NAMESPACE = 'default';

const one = (options: NamespaceOptions): string => options.namespace ?? DEFAULT_NAMESPACE;
const oneOrAll = (options: NamespaceOptions): string | undefined =>
  options.allNamespaces === true ? undefined : one(options);
const collect = (value: string, before: string[]): string[] => [...before, value];

/**
 * The command line: names, options and help. The commands themselves are loaded when they run, so that
 * `gantry get` does not pay for what `gantry apply` needs.
 */
export function createProgram(host: ProgramHost): Command {
  const program = new Command('gantry')
    // Errors come back to main.ts, which decides how the process ends.
    .exitOverride()
    .description('Runs Kubernetes pods on this machine, and ends them right.')
    .option(
      '--api <url>',
      'the API to talk to: unix:///PATH or http://HOST:PORT (default: $GANTRY_API, else unix:///run/gantry/api.sock)',
    )
    .showHelpAfterError('(gantry --help lists the commands)')
    .enablePositionalOptions();
  const run = (command: () => Promise<ExitCode>): Promise<void> => command().then((code) => host.finished(code));

  const namespaced = (command: Command): Command =>
    command.option('-n, --namespace <name>', 'namespace (default: default)');
  const manifests = (command: Command): Command =>
    command
      .option(
        '-f, --filename <path>',
        'a manifest, a folder of manifests, or - for stdin (may be repeated)',
        collect,
        [],
      )
      .option('-R, --recursive', 'folders with all that is below them');

  manifests(namespaced(program.command('apply')))
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
          const { apply } = await import('./commands/apply.ts');
          return await apply(host.context(), {
            files: o.filename,
            recursive: o.recursive === true,
            namespace: one(o),
            namespaceGiven: o.namespace !== undefined,
            wait: o.wait === true,
            timeoutMs: parseDurationMs('--timeout', o.timeout),
            dryRun: isDryRun(o.dryRun),
            format: parseFormat(o.output),
          });
        }),
    );

  namespaced(program.command('get'))
    .description('list objects, or show some by name')
    .argument('<resource...>', 'pods, pod NAME, pod/NAME …')
    .option('-A, --all-namespaces', 'of all namespaces')
    .option('-o, --output <format>', 'wide, json, yaml or name')
    .option('-w, --watch', 'go on showing changes')
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
          selector?: string;
          fieldSelector?: string;
          headers: boolean;
          ignoreNotFound?: boolean;
        },
      ) =>
        run(async () => {
          const { get } = await import('./commands/get.ts');
          return await get(host.context(), args, {
            namespace: oneOrAll(o),
            format: parseFormat(o.output),
            watch: o.watch === true,
            noHeaders: !o.headers,
            ignoreNotFound: o.ignoreNotFound === true,
            ...(o.selector === undefined ? {} : { selector: o.selector }),
            ...(o.fieldSelector === undefined ? {} : { fieldSelector: o.fieldSelector }),
          });
        }),
    );

  namespaced(program.command('describe'))
    .description('show objects in words, with their events')
    .argument('<resource...>', 'pod NAME, pod/NAME …')
    .action((args: string[], o: NamespaceOptions) =>
      run(async () => (await import('./commands/describe.ts')).describe(host.context(), args, { namespace: one(o) })),
    );

  namespaced(program.command('logs'))
    .description('print what a container wrote')
    .argument('<pod>', 'POD or pod/POD')
    .argument('[container]', 'the container, if the pod has several')
    .option('-c, --container <name>', 'the container')
    .option('-f, --follow', 'go on as more is written')
    .option('-p, --previous', 'of the container before the last restart')
    .option('--tail <lines>', 'only so many lines from the end (-1: all)')
    .option('--since <duration>', 'only what is newer than this: 10s, 5m')
    .option('--since-time <time>', 'only what is newer than this RFC 3339 time')
    .option('--timestamps', 'each line with its time')
    .option('--limit-bytes <bytes>', 'stop after so many bytes')
    .action(
      (
        pod: string,
        container: string | undefined,
        o: NamespaceOptions & {
          container?: string;
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
          const { logs } = await import('./commands/logs.ts');
          const name = container ?? o.container;
          const tail = o.tail === undefined ? -1 : parseWhole('--tail', o.tail, -1);
          return await logs(host.context(), {
            namespace: one(o),
            name: podName(pod),
            follow: o.follow === true,
            previous: o.previous === true,
            timestamps: o.timestamps === true,
            ...(name === undefined ? {} : { container: name }),
            ...(tail < 0 ? {} : { tailLines: tail }),
            ...(o.since === undefined ? {} : { sinceSeconds: Math.ceil(parseDurationMs('--since', o.since) / 1000) }),
            ...(o.sinceTime === undefined ? {} : { sinceTime: o.sinceTime }),
            ...(o.limitBytes === undefined ? {} : { limitBytes: parseWhole('--limit-bytes', o.limitBytes, 1) }),
          });
        }),
    );

  namespaced(program.command('exec'))
    .description('run a command in a container, without a terminal')
    .usage('[options] <pod> -- <command> [arg...]')
    .argument('<pod>', 'POD or pod/POD')
    .argument('<command...>', 'what to run, after --')
    .option('-c, --container <name>', 'the container, if the pod has several')
    .option('-i, --stdin', 'pass stdin on (comes with streaming)')
    .option('-t, --tty', 'with a terminal (comes with streaming)')
    .option('--timeout <duration>', 'kill it after this time')
    .passThroughOptions()
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
          const { exec } = await import('./commands/exec.ts');
          return await exec(host.context(), {
            namespace: one(o),
            name: podName(pod),
            command: command[0] === '--' ? command.slice(1) : command,
            ...(o.container === undefined ? {} : { container: o.container }),
            ...(o.timeout === undefined
              ? {}
              : { timeoutSeconds: Math.ceil(parseDurationMs('--timeout', o.timeout) / 1000) }),
          });
        }),
    );

  namespaced(program.command('stop'))
    .description('end containers: stop signal, wait, SIGKILL; the pod and its restart policy stay')
    .argument('<container...>', 'container ids, POD/CONTAINER, or container names')
    .option('-t, --time <seconds>', 'how long to wait before SIGKILL (default: the grace period of the pod)')
    .option('-s, --signal <signal>', "signal to send instead of the container's own")
    .action((containers: string[], o: NamespaceOptions & { time?: string; signal?: string }) =>
      run(async () => {
        const { stop } = await import('./commands/stop.ts');
        return await stop(host.context(), containers, {
          namespace: one(o),
          ...(o.time === undefined ? {} : { timeoutSeconds: parseWhole('--time', o.time) }),
          ...(o.signal === undefined ? {} : { signal: o.signal }),
        });
      }),
    );

  manifests(namespaced(program.command('delete')))
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
          const { deleteObjects } = await import('./commands/delete.ts');
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
            namespace: oneOrAll(o),
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

  namespaced(program.command('events'))
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
          const { events } = await import('./commands/events.ts');
          return await events(host.context(), {
            namespace: oneOrAll(o),
            watch: o.watch === true,
            noHeaders: !o.headers,
            format: parseFormat(o.output),
            ...(o.for === undefined ? {} : { forObject: o.for }),
            ...(o.types === undefined ? {} : { types: o.types }),
          });
        }),
    );

  namespaced(program.command('explain'))
    .description("a pod's life so far: what happened, when, why, how long it took, and what is still pending")
    .argument('<resource...>', 'pod NAME')
    .option('--uid <uid>', 'an earlier pod of the same name')
    .option('-o, --output <format>', 'json or yaml')
    .action((args: string[], o: NamespaceOptions & { uid?: string; output?: string }) =>
      run(async () => {
        const { explain } = await import('./commands/explain.ts');
        return await explain(host.context(), args, {
          namespace: one(o),
          format: parseFormat(o.output),
          ...(o.uid === undefined ? {} : { uid: o.uid }),
        });
      }),
    );

  addImageCommands(program.command('image').description('images on this machine'), host, run);

  program
    .command('version')
    .description('versions of this program and of the daemon')
    .option('--client', 'of this program only')
    .option('-o, --output <format>', 'json or yaml')
    .action((o: { client?: boolean; output?: string }) =>
      run(async () =>
        (await import('./commands/version.ts')).version(host.context(), {
          clientOnly: o.client === true,
          format: parseFormat(o.output),
        }),
      ),
    );

  program
    .command('completion')
    .description('a completion script: source <(gantry completion bash)')
    .argument('<shell>', 'bash, zsh or fish')
    .action((shell: string) =>
      run(async () => (await import('./commands/completion.ts')).completion(host.context(), shell, wordsOf(program))),
    );
  return program;
}

function addImageCommands(
  image: Command,
  host: ProgramHost,
  run: (command: () => Promise<ExitCode>) => Promise<void>,
): void {
  image
    .command('pull')
    .description('fetch an image from its registry')
    .argument('<reference>', 'busybox, registry.example.org/app:1.2 …')
    .option('-u, --creds <user:password>', 'credentials (default: those of the daemon for this registry)')
    .action((reference: string, o: { creds?: string }) =>
      run(async () => {
        const { imagePull } = await import('./commands/image-transfer.ts');
        const colon = o.creds?.indexOf(':') ?? -1;
        if (o.creds !== undefined && colon < 1) throw invalidArgument('--creds should be USER:PASSWORD');
        return await imagePull(host.context(), {
          reference,
          ...(o.creds === undefined ? {} : { username: o.creds.slice(0, colon), password: o.creds.slice(colon + 1) }),
        });
      }),
    );
  image
    .command('list')
    .alias('ls')
    .description('images that are here')
    .option('-o, --output <format>', 'json or yaml')
    .action((o: { output?: string }) =>
      run(async () =>
        (await import('./commands/image-list.ts')).imageList(host.context(), { format: parseFormat(o.output) }),
      ),
    );
  image
    .command('rm')
    .description('remove names of images, and images that no name is left of')
    .argument('<reference...>', 'names or ids')
    .action((references: string[]) =>
      run(async () => (await import('./commands/image-remove.ts')).imageRemove(host.context(), references)),
    );
  image
    .command('import')
    .description('take an image from a docker or OCI archive, an OCI layout folder, or a root filesystem')
    .usage('FILE|LAYOUT | --rootfs DIR|TAR [options] NAME')
    .argument('[source]', 'an archive or an OCI layout folder; with --rootfs: the name to give')
    .option('--rootfs <path>', 'a root filesystem: a folder or a tar')
    .option('--name <name>', 'name for an archive that has none')
    .option('--entrypoint <arg>', 'what a container runs (repeat for arguments)', collect, [])
    .option('--cmd <arg>', 'default arguments (may be repeated)', collect, [])
    .option('--env <NAME=VALUE>', 'environment (may be repeated)', collect, [])
    .option('--workdir <path>', 'working directory')
    .option('--user <user>', 'user or UID[:GID]')
    .action(
      (
        source: string | undefined,
        o: {
          rootfs?: string;
          name?: string;
          entrypoint: string[];
          cmd: string[];
          env: string[];
          workdir?: string;
          user?: string;
        },
      ) =>
        run(async () => {
          const { imageImport } = await import('./commands/image-transfer.ts');
          const context = host.context();
          if (o.rootfs === undefined && source === undefined)
            throw invalidArgument('name an archive or an OCI layout folder, or use --rootfs');
          const name = o.rootfs === undefined ? o.name : (source ?? o.name);
          if (o.rootfs !== undefined && name === undefined)
            throw invalidArgument('--rootfs needs a NAME for the image');
          return await imageImport(context, {
            path: resolve(context.cwd, o.rootfs ?? source ?? ''),
            source: o.rootfs === undefined ? 'archive' : 'rootfs',
            ...(name === undefined ? {} : { name }),
            ...(o.entrypoint.length === 0 ? {} : { entrypoint: o.entrypoint }),
            ...(o.cmd.length === 0 ? {} : { cmd: o.cmd }),
            ...(o.env.length === 0 ? {} : { env: o.env }),
            ...(o.workdir === undefined ? {} : { workingDir: o.workdir }),
            ...(o.user === undefined ? {} : { user: o.user }),
          });
        }),
    );
}

function podName(text: string): string {
  return text.replace(/^(pods?|po)\//, '');
}

function isDryRun(value: string | boolean | undefined): boolean {
  if (value === undefined || value === 'none' || value === false) return false;
  if (value === true || value === 'client' || value === 'server') return true;
  throw invalidArgument(`invalid argument "${value}" for "--dry-run": it should be none, client or server`);
}

function flagValue(flag: string, value: string | boolean | undefined, fallback: boolean): boolean {
  if (value === undefined) return fallback;
  if (value === true || value === 'true') return true;
  if (value === false || value === 'false') return false;
  throw invalidArgument(`invalid argument "${value}" for "${flag}": it should be true or false`);
}

function wordsOf(command: Command): CommandWords {
  return {
    name: command.name(),
    options: command.options.map((option) => option.long ?? option.short ?? ''),
    subcommands: command.commands.map(wordsOf),
  };
}
