import { invalidArgument } from '../../lib/errors.ts';
import type { ImageProcessDefaults } from './container-spec-input.ts';

/**
 * The CRI's rule, which is Kubernetes': a command replaces entrypoint and cmd, args replace cmd alone.
 * Throws InvalidArgument when nothing is left to run.
 */
export function commandLine(
  image: ImageProcessDefaults,
  command: readonly string[] = [],
  args: readonly string[] = [],
): readonly string[] {
  const argv =
    command.length > 0
      ? [...command, ...args]
      : [...(image.entrypoint ?? []), ...(args.length > 0 ? args : (image.cmd ?? []))];
  if (argv.length === 0) throw invalidArgument('no command: neither the container nor its image has one');
  if (argv[0] === '') throw invalidArgument('the command is an empty string');
  return argv;
}

const DEFAULT_PATH = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** For a process with a terminal of which nobody has said the kind. */
export const DEFAULT_TERM = 'TERM=xterm';

export interface EnvironmentInput {
  readonly image: readonly string[];
  readonly container: readonly { readonly name: string; readonly value: string }[];
  readonly hostname?: string;
  readonly home?: string;
  readonly terminal?: boolean;
}

/** `NAME=value` lines, each name once: the container's own win over the image's, those over our defaults. */
export function environment(input: EnvironmentInput): readonly string[] {
  const lines = new Map<string, string>();
  const set = (line: string): void => {
    const end = line.indexOf('=');
    // A name alone, as old images have it, is set and empty.
    lines.set(end < 0 ? line : line.slice(0, end), end < 0 ? `${line}=` : line);
  };
  set(DEFAULT_PATH);
  if (input.terminal === true) set(DEFAULT_TERM);
  if (input.hostname !== undefined) set(`HOSTNAME=${input.hostname}`);
  if (input.home !== undefined) set(`HOME=${input.home}`);
  for (const line of input.image) set(line);
  for (const [i, { name, value }] of input.container.entries()) {
    if (name === '' || name.includes('=') || name.includes('\0')) {
      throw invalidArgument(
        `envs[${String(i)}].key: ${JSON.stringify(name)} is not a name for an environment variable`,
      );
    }
    set(`${name}=${value}`);
  }
  return [...lines.values()];
}
