import { GantryError, type ErrorKind } from '../../lib/errors.ts';
import type { ExecResult } from '../../linux/exec.ts';
import { isObject } from './network-config.ts';

/** What a plug-in says when it fails (CNI specification, section 5). */
export interface PluginFailure {
  readonly code: number;
  readonly message: string;
}

const CODE_INCOMPATIBLE_VERSION = 1;
const CODE_UNSUPPORTED_FIELD = 2;
const CODE_UNKNOWN_CONTAINER = 3;
const CODE_INVALID_ENVIRONMENT = 4;
const CODE_CANNOT_READ = 5;
const CODE_CANNOT_DECODE = 6;
const CODE_INVALID_CONFIG = 7;
const CODE_TRY_AGAIN_LATER = 11;
const LONGEST_STDERR = 500;

/** In its own words where it has said something in the agreed form; else from what it wrote to stderr. */
export function pluginFailure({ code, signal, stdout, stderr }: ExecResult): PluginFailure {
  const agreed = agreedError(stdout);
  if (agreed !== undefined) return agreed;
  const said = (stderr.trim() === '' ? stdout : stderr).trim().slice(-LONGEST_STDERR);
  const how = signal === null ? `exit code ${String(code)}` : `ended by ${signal}`;
  return { code: 0, message: said === '' ? how : `${how}: ${said}` };
}

/** What went wrong by a plug-in's answer. Some write the agreed error and end with 0 all the same: then they have failed. */
export function failureIn(answer: ExecResult): PluginFailure | undefined {
  if (answer.code !== 0) return pluginFailure(answer);
  const agreed = agreedError(answer.stdout);
  return agreed !== undefined && Number.isInteger(agreed.code) && agreed.code !== 0 ? agreed : undefined;
}

function agreedError(stdout: string): PluginFailure | undefined {
  const value = jsonObject(stdout);
  if (typeof value?.['msg'] !== 'string') return undefined;
  const { msg, details } = value;
  const message = typeof details === 'string' && details !== '' ? `${msg}: ${details}` : msg;
  return { code: Number(value['code']), message };
}

/** Every answer of a plug-in is one. Undefined when it is not. */
export function jsonObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const REFUSALS: ReadonlySet<number | undefined> = new Set([
  CODE_INCOMPATIBLE_VERSION,
  CODE_UNSUPPORTED_FIELD,
  CODE_INVALID_ENVIRONMENT,
  CODE_CANNOT_READ,
  CODE_CANNOT_DECODE,
  CODE_INVALID_CONFIG,
]);

/** Whether the plug-in did not even take what it was told: it has begun nothing. */
export function refusesConfig(code: number | undefined): boolean {
  return REFUSALS.has(code);
}

const CONFIG_REFUSALS: ReadonlySet<number | undefined> = new Set([
  CODE_INCOMPATIBLE_VERSION,
  CODE_UNSUPPORTED_FIELD,
  CODE_CANNOT_DECODE,
  CODE_INVALID_CONFIG,
]);

/** Whether it is the configuration that the plug-in did not take, and not whom it was to connect. */
export function refusesForConfig(code: number | undefined): boolean {
  return CONFIG_REFUSALS.has(code);
}

export function pluginError(
  type: string,
  command: string,
  failure: PluginFailure,
  more: Readonly<Record<string, unknown>> = {},
): GantryError {
  return new GantryError(kindOfFailure(failure), `CNI plug-in ${type} failed (${command}): ${failure.message}`, {
    details: { plugin: type, command, pluginCode: failure.code, ...more },
  });
}

function kindOfFailure({ code, message }: PluginFailure): ErrorKind {
  if (/no IP addresses available/i.test(message)) return 'ResourceExhausted';
  if (code === CODE_TRY_AGAIN_LATER) return 'Unavailable';
  if (code === CODE_INVALID_CONFIG || code === CODE_INVALID_ENVIRONMENT) return 'FailedPrecondition';
  return 'Internal';
}

/** Whether a failed DEL only says that there is nothing (any more) to take apart. */
export function saysGone({ code, message }: PluginFailure, netnsGone: boolean): boolean {
  if (code === CODE_UNKNOWN_CONTAINER) return true;
  // Without a namespace some plug-ins complain of just that, although all that was in it went with it.
  return netnsGone && /netns|network namespace|\/ns\/net|CNI_NETNS|Statfs|unknown FS magic/i.test(message);
}
