import { access } from 'node:fs/promises';
import type { Op } from '../lib/abort.ts';
import { GantryError, isKind, unavailable, type ErrorKind } from '../lib/errors.ts';
import { findProgram } from '../lib/find-program.ts';
import { waitingFor } from '../lib/waits.ts';
import { execFile } from './exec.ts';
import { INFINITY, type UnitProperty } from './systemd-properties.ts';

/** A unit that systemd knows of. */
export interface UnitView {
  readonly name: string;
  /** `active`, `inactive`, `failed`, `deactivating` … */
  readonly activeState: string;
}

export interface NewScope {
  readonly slice: string;
  readonly description: string;
  readonly pid: number;
}

/** There while systemd is pid 1. */
const BOOTED = '/run/systemd/system';
const MANAGER = ['org.freedesktop.systemd1', '/org/freedesktop/systemd1', 'org.freedesktop.systemd1.Manager'] as const;
/** systemd itself answers within milliseconds, but for a reload on a slow machine. */
const TIMEOUT_S = 30;
/** What systemctl ends with when there is no such unit. */
const NO_SUCH_UNIT = 5;

/** systemd's own words, and what they mean for a caller. */
const WORDS: readonly (readonly [RegExp, ErrorKind])[] = [
  [/not loaded|not found/, 'NotFound'],
  [/already (?:loaded|exists)|has a fragment file/, 'AlreadyExists'],
];

/** Whether this machine is run by systemd. */
export async function isSystemdHere(): Promise<boolean> {
  return await access(BOOTED).then(
    () => true,
    () => false,
  );
}

/**
 * The units of the systemd that runs this machine, by its own programs: `busctl` for what is made and changed, `systemctl` for what is
 * stopped, as that waits for the end. Where they are not found, or cannot reach systemd, everything throws Unavailable in their words.
 */
export class SystemdUnits {
  readonly #searchPath: readonly string[] | undefined;

  /** @param searchPath where the programs are looked for (default: the usual folders) */
  constructor(searchPath?: readonly string[]) {
    this.#searchPath = searchPath;
  }

  /** systemd's version; that it can be asked says that it can be told, too. */
  async version(op: Op): Promise<string> {
    return String(await this.#busctl(op, ['get-property', ...MANAGER, 'Version']));
  }

  /** A slice without a file of its own, and those above it. Throws AlreadyExists for one that is known, by a file or because it is there. */
  async startSlice(
    op: Op,
    name: string,
    { description, properties }: { readonly description: string; readonly properties: readonly UnitProperty[] },
  ): Promise<void> {
    await this.#startTransient(op, name, [['Description', 's', description], ...properties]);
  }

  /** A scope with one process in it, in whose cgroup whoever made it does as he likes. Throws AlreadyExists while there is one of that name. */
  async startScope(op: Op, name: string, { slice, description, pid }: NewScope): Promise<void> {
    await this.#startTransient(op, name, [
      ['Description', 's', description],
      ['Slice', 's', slice],
      ['Delegate', 'b', 'true'],
      // Not to be stopped with everything else at a shutdown: what is in it may be needed for an orderly end.
      ['DefaultDependencies', 'b', 'false'],
      ['TasksMax', 't', INFINITY],
      ['CollectMode', 's', 'inactive-or-failed'],
      ['PIDs', 'au', '1', String(pid)],
    ]);
  }

  /** Until the unit goes. Throws NotFound for one that there is not. */
  async setProperties(op: Op, name: string, properties: readonly UnitProperty[]): Promise<void> {
    await this.#call(op, ['SetUnitProperties', 'sba(sv)', name, 'true', ...argumentsOf(properties)]);
  }

  /** Waits until they have stopped, and what is in them: processes are killed. What is not there has stopped. */
  async stop(op: Op, ...names: readonly string[]): Promise<void> {
    const { code, stderr } = await this.#run(op, 'systemctl', ['stop', '--quiet', '--', ...names]);
    if (code !== 0 && code !== NO_SUCH_UNIT) throw errorOf('systemctl stop', stderr);
  }

  /** Those in memory that any of the patterns (`gantry-*.slice`) fits. */
  async list(op: Op, ...patterns: readonly string[]): Promise<UnitView[]> {
    const count = String(patterns.length);
    const units = await this.#call(op, ['ListUnitsByPatterns', 'asas', '0', count, ...patterns]);
    return (units as string[][]).map(([name = '', , , activeState = '']) => ({ name, activeState }));
  }

  async #startTransient(op: Op, name: string, properties: readonly UnitProperty[]): Promise<void> {
    await this.#call(op, ['StartTransientUnit', 'ssa(sv)a(sa(sv))', name, 'fail', ...argumentsOf(properties), '0']);
  }

  async #call(op: Op, args: readonly string[]): Promise<unknown> {
    return await this.#busctl(op, ['call', ...MANAGER, ...args]);
  }

  /** The first value of the answer. */
  async #busctl(op: Op, args: readonly string[]): Promise<unknown> {
    const options = ['--system', '--json=short', `--timeout=${String(TIMEOUT_S)}`, '--'];
    const { code, stdout, stderr } = await this.#run(op, 'busctl', [...options, ...args]);
    if (code !== 0) throw errorOf(`busctl ${args[0] === 'call' ? (args[4] ?? '') : (args[0] ?? '')}`, stderr);
    if (stdout.trim() === '') return undefined;
    const { data } = JSON.parse(stdout) as { readonly data: unknown };
    return Array.isArray(data) ? (data as unknown[])[0] : data;
  }

  async #run(op: Op, name: 'busctl' | 'systemctl', args: readonly string[]) {
    const path = await findProgram(name, this.#searchPath);
    if (path === undefined) throw unavailable(`${name}, a program of systemd's, is not installed`);
    try {
      // Their words are read.
      const env = { ...process.env, LC_ALL: 'C' };
      return await waitingFor(op, `systemd (${name})`, () => execFile(op, path, args, { env }));
    } catch (error) {
      if (isKind(error, 'NotFound')) throw unavailable(`${path} cannot be run`, { cause: error });
      throw error;
    }
  }
}

function argumentsOf(properties: readonly UnitProperty[]): string[] {
  return [String(properties.length), ...properties.flat()];
}

function errorOf(what: string, stderr: string): GantryError {
  const words = stderr
    .trim()
    .replace(/^Call failed: /, '')
    .replaceAll('\n', '; ');
  const kind = WORDS.find(([pattern]) => pattern.test(words))?.[1] ?? 'Unavailable';
  return new GantryError(kind, `systemd: ${what}: ${words === '' ? 'it failed and said nothing' : words}`);
}
