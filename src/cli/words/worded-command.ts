import { Command, type ErrorOptions, type HelpContext } from 'commander';
import { closest } from '../../kube/validate/suggest.ts';

/**
 * A command as kubectl's behave where commander's own do not: a group without a command shows its help on stdout and is content,
 * help for what does not exist is a mistake, and a mistake is one line that says where to look.
 */
export class WordedCommand extends Command {
  override createCommand(name?: string): Command {
    return new WordedCommand(name);
  }

  override help(context?: HelpContext | ((text: string) => string)): never {
    if (typeof context === 'function' || context?.error !== true) return super.help(context as HelpContext);
    // An error to commander: no command was given, or `help` of one that there is not.
    const [, unknown] = this.args;
    if (unknown === undefined) return super.help();
    const guess = closest(
      unknown,
      this.commands.map((command) => command.name()),
    );
    const suggestion = guess === undefined ? '' : ` (Did you mean ${guess}?)`;
    return this.error(`error: unknown command '${unknown}'${suggestion}`, { code: UNKNOWN_COMMAND });
  }

  override error(message: string, options?: ErrorOptions): never {
    const help = `${pathOf(this)} --help`;
    const where = options?.code === UNKNOWN_COMMAND ? `${help} lists the commands` : `see ${help}`;
    return super.error(`${message.replaceAll('\n', ' ')}; ${where}`, options);
  }
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}

const UNKNOWN_COMMAND = 'commander.unknownCommand';
