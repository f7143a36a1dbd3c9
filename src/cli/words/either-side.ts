import { Option, type Command } from 'commander';

const API = '--api <url>';
const NAMESPACE = '-n, --namespace <name>';

/**
 * `--api` and `-n` before the command or after it, as with kubectl: `gantry -n web get pods`. Said twice, the one after the command counts.
 * To be called when all commands are there.
 */
export function takeOnEitherSide(program: Command): void {
  program
    .option(
      API,
      'the API to talk to: unix:///PATH or http://HOST:PORT (default: $GANTRY_API, else unix:///run/gantry/api.sock)',
    )
    .option(NAMESPACE, 'namespace, for a command that knows one (default: default)');
  for (const command of leavesOf(program)) command.addOption(new Option(API).hideHelp());
  program.hook('preAction', (_program, command) => {
    const { api } = command.opts<{ api?: string }>();
    if (api !== undefined) program.setOptionValueWithSource('api', api, 'cli');
    const { namespace } = program.opts<{ namespace?: string }>();
    if (namespace === undefined || command.getOptionValue('namespace') !== undefined) return;
    if (command.options.some(({ flags }) => flags === NAMESPACE)) {
      command.setOptionValueWithSource('namespace', namespace, 'cli');
    }
  });
}

function leavesOf(command: Command): Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap(leavesOf);
}
