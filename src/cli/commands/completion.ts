import { invalidArgument } from '../../lib/errors.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';
import { RESOURCES } from '../resources.ts';

/** What a command offers: its sub-commands and its long options. */
export interface CommandWords {
  readonly name: string;
  readonly options: readonly string[];
  readonly subcommands: readonly CommandWords[];
}

export const SHELLS = ['bash', 'zsh', 'fish'] as const;

/** `gantry completion SHELL`: a script for the shell to source. */
export async function completion(context: CliContext, shell: string, program: CommandWords): Promise<ExitCode> {
  switch (shell) {
    case 'bash':
      await line(context.out, bashScript(program));
      return 0;
    case 'zsh':
      await line(context.out, `autoload -U +X bashcompinit && bashcompinit\n${bashScript(program)}`);
      return 0;
    case 'fish':
      await line(context.out, fishScript(program));
      return 0;
    default:
      throw invalidArgument(`unsupported shell "${shell}" (there are ${SHELLS.join(', ')})`);
  }
}

const RESOURCE_COMMANDS = ['get', 'describe', 'delete'];
const POD_COMMANDS = ['logs', 'exec'];
const resourceWords = RESOURCES.map((r) => r.resource).join(' ');

function bashScript(program: CommandWords): string {
  const cases = program.subcommands.map((command) => {
    const words = [...command.subcommands.map((sub) => sub.name), ...command.options].join(' ');
    return `    ${command.name}) words="${words}" ;;`;
  });
  return `# bash completion for ${program.name}; load it with: source <(${program.name} completion bash)
_${program.name}() {
  local current=\${COMP_WORDS[COMP_CWORD]} command=\${COMP_WORDS[1]} words
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${program.subcommands.map((c) => c.name).join(' ')}" -- "$current"))
    return
  fi
  case $command in
${cases.join('\n')}
    *) words= ;;
  esac
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    return
  fi
  case $command in
    ${RESOURCE_COMMANDS.join('|')})
      if [ "$COMP_CWORD" -eq 2 ]; then
        COMPREPLY=($(compgen -W "${resourceWords}" -- "$current"))
      else
        COMPREPLY=($(compgen -W "$(${program.name} get "\${COMP_WORDS[2]}" -o name 2>/dev/null | cut -d/ -f2)" -- "$current"))
      fi ;;
    ${POD_COMMANDS.join('|')})
      COMPREPLY=($(compgen -W "$(${program.name} get pods -o name 2>/dev/null | cut -d/ -f2)" -- "$current")) ;;
    apply) COMPREPLY=($(compgen -f -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
  esac
}
complete -o default -F _${program.name} ${program.name}`;
}

function fishScript(program: CommandWords): string {
  const lines = [
    `# fish completion for ${program.name}; load it with: ${program.name} completion fish | source`,
    `complete -c ${program.name} -f`,
  ];
  for (const command of program.subcommands) {
    lines.push(`complete -c ${program.name} -n __fish_use_subcommand -a ${command.name}`);
    const seen = `-n "__fish_seen_subcommand_from ${command.name}"`;
    for (const option of command.options)
      lines.push(`complete -c ${program.name} ${seen} -l ${option.replace(/^--/, '')}`);
    for (const sub of command.subcommands) lines.push(`complete -c ${program.name} ${seen} -a ${sub.name}`);
  }
  for (const command of RESOURCE_COMMANDS) {
    lines.push(`complete -c ${program.name} -n "__fish_seen_subcommand_from ${command}" -a "${resourceWords}"`);
  }
  for (const command of POD_COMMANDS) {
    lines.push(
      `complete -c ${program.name} -n "__fish_seen_subcommand_from ${command}" -a "(${program.name} get pods -o name 2>/dev/null | cut -d/ -f2)"`,
    );
  }
  return lines.join('\n');
}
