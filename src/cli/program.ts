import type { Command } from 'commander';
import type { CommandWords } from './commands/completion.ts';
import { parseFormat } from './output/format.ts';
import { addApply } from './words/apply.ts';
import { addAttach } from './words/attach.ts';
import { addDelete } from './words/delete.ts';
import { addDescribe } from './words/describe.ts';
import { addEvents } from './words/events.ts';
import { addExec } from './words/exec.ts';
import { addExplain } from './words/explain.ts';
import { addGet } from './words/get.ts';
import { addLogs } from './words/logs.ts';
import { addPortForward } from './words/port-forward.ts';
import { addStop } from './words/stop.ts';
import { addTop } from './words/top.ts';
import { addImageCommands } from './words/image-commands.ts';
import { takeOnEitherSide } from './words/either-side.ts';
import { RUNTIME_ENDPOINT, type ProgramHost, type Run } from './words/shared-options.ts';
import { WordedCommand } from './words/worded-command.ts';

type AddCommand = (program: Command, host: ProgramHost, run: Run) => void;

/** By name, in the order of help. */
const COMMANDS: ReadonlyMap<string, AddCommand> = new Map<string, AddCommand>([
  ['apply', addApply],
  ['get', addGet],
  ['describe', addDescribe],
  ['delete', addDelete],
  ['events', addEvents],
  ['logs', addLogs],
  ['exec', addExec],
  ['attach', addAttach],
  ['port-forward', addPortForward],
  ['stop', addStop],
  ['explain', addExplain],
  ['top', addTop],
  [
    'image',
    (program, host, run) => addImageCommands(program.command('image').description('images on this machine'), host, run),
  ],
  ['doctor', addDoctor],
  ['version', addVersion],
  ['completion', addCompletion],
]);

/**
 * The command line: names, options and help. The commands themselves are loaded when they run, so that
 * `gantry get` does not pay for what `gantry apply` needs.
 *
 * @param first the first word of the command line, if it is known: where it is a command's name, no other command is asked for, and none is made
 */
export function createProgram(host: ProgramHost, first?: string): Command {
  const program = new WordedCommand('gantry')
    // Errors come back to main.ts, which decides how the process ends.
    .exitOverride()
    .configureOutput(host.print === undefined ? {} : { writeOut: host.print.out, writeErr: host.print.err })
    .description('Runs Kubernetes pods on this machine, and ends them right.')
    .enablePositionalOptions();
  const run: Run = (command) =>
    command().then((code) => {
      host.finished(code);
    });
  const asked = first === 'completion' ? undefined : COMMANDS.get(first ?? '');
  for (const add of asked === undefined ? COMMANDS.values() : [asked]) add(program, host, run);
  takeOnEitherSide(program);
  return program;
}

function addDoctor(program: Command, host: ProgramHost, run: Run): void {
  program
    .command('doctor')
    .description(
      'what is left over on this machine without an owner, and what is missing; exit code 1 while there is any',
    )
    .option('--fix', "put it right; other runtimes' things are never touched")
    .option(...RUNTIME_ENDPOINT)
    .option('-o, --output <format>', "wide (all of others' things), json or yaml")
    .action((o: { fix?: boolean; runtimeEndpoint?: string; output?: string }) =>
      run(async () =>
        (await import('./commands/doctor.ts')).doctor(host.context(), {
          fix: o.fix === true,
          format: parseFormat(o.output),
          ...(o.runtimeEndpoint === undefined ? {} : { runtimeEndpoint: o.runtimeEndpoint }),
        }),
      ),
    );
}

function addVersion(program: Command, host: ProgramHost, run: Run): void {
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
}

/** Of all commands: they have to be there. */
function addCompletion(program: Command, host: ProgramHost, run: Run): void {
  program
    .command('completion')
    .description('a completion script: source <(gantry completion bash)')
    .argument('<shell>', 'bash, zsh or fish')
    .action((shell: string) =>
      run(async () => (await import('./commands/completion.ts')).completion(host.context(), shell, wordsOf(program))),
    );
}

function wordsOf(command: Command): CommandWords {
  return {
    name: command.name(),
    options: command.options.map((option) => option.long ?? option.short ?? ''),
    subcommands: command.commands.map(wordsOf),
  };
}
