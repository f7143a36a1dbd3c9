import type { Command } from 'commander';
import type { AttachOptions } from '../commands/attach.ts';
import { invalidArgument } from '../../lib/errors.ts';
import type { CliContext, ExitCode } from '../context.ts';

/** What the program needs to run a command, and how it tells its exit code. */
export interface ProgramHost {
  context(): CliContext;
  finished(code: ExitCode): void;
  /** Where help and complaints about the words themselves go; absent: stdout and stderr. */
  readonly print?: { readonly out: (text: string) => void; readonly err: (text: string) => void };
}

/** Runs a command and hands its exit code to the host. */
export type Run = (command: () => Promise<ExitCode>) => Promise<void>;

export interface NamespaceOptions {
  namespace?: string;
  allNamespaces?: boolean;
}

const DEFAULT_NAMESPACE = 'default';

export function namespaceOf(options: NamespaceOptions): string {
  return options.namespace ?? DEFAULT_NAMESPACE;
}

/** For what the runtime can be asked as well as the API. */
export const RUNTIME_ENDPOINT = [
  '--runtime-endpoint <url>',
  'ask the CRI socket instead of the API: unix:///PATH (unix:///run/gantry/gantry.sock is tried when no API answers)',
] as const;

/** Undefined: all namespaces. */
export function namespaceOrAll(options: NamespaceOptions): string | undefined {
  return options.allNamespaces === true ? undefined : namespaceOf(options);
}

/** Collects the values of an option that may be repeated. */
export function collect(value: string, before: string[]): string[] {
  return [...before, value];
}

export function withNamespace(command: Command): Command {
  return command.option('-n, --namespace <name>', 'namespace (default: default)');
}

export function withManifests(command: Command): Command {
  return command
    .option('-f, --filename <path>', 'a manifest, a folder of manifests, or - for stdin (may be repeated)', collect, [])
    .option('-R, --recursive', 'folders with all that is below them');
}

export function podName(text: string): string {
  return text.replace(/^(pods?|po)\//, '');
}

/** Of a command that joins our terminal to a container. */
export interface SessionOptions extends NamespaceOptions {
  readonly container?: string;
  readonly stdin?: boolean;
  readonly tty?: boolean;
  readonly quiet?: boolean;
}

export function sessionOf(pod: string, options: SessionOptions): AttachOptions {
  return {
    namespace: namespaceOf(options),
    name: podName(pod),
    stdin: options.stdin === true,
    tty: options.tty === true,
    quiet: options.quiet === true,
    ...(options.container === undefined ? {} : { container: options.container }),
  };
}

export function isDryRun(value: string | boolean | undefined): boolean {
  if (value === undefined || value === 'none' || value === false) return false;
  if (value === true || value === 'client' || value === 'server') return true;
  throw invalidArgument(`invalid argument "${value}" for "--dry-run": it should be none, client or server`);
}

export function flagValue(flag: string, value: string | boolean | undefined, fallback: boolean): boolean {
  if (value === undefined) return fallback;
  if (value === true || value === 'true') return true;
  if (value === false || value === 'false') return false;
  throw invalidArgument(`invalid argument "${value}" for "${flag}": it should be true or false`);
}
