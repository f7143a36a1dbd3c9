import type { Op } from '../../lib/abort.ts';
import { execFile, type ExecOptions, type ExecResult } from '../../linux/exec.ts';
import { GantryError, isKind } from '../../lib/errors.ts';
import { PROGRAM_FOLDERS } from '../../lib/find-program.ts';
import { waitingFor } from '../../lib/waits.ts';
import type { OciState } from './spec.ts';
import { classifyRuntimeError } from './runtime-error.ts';

export interface OciRuntimeLocation {
  /** `crun`, `runc`, or the base name of a program given by path. */
  readonly name: string;
  readonly path: string;
  /** State folder of the runtime (`--root`), of this Gantry alone. Volatile. */
  readonly root: string;
  /** Its containers' cgroups are systemd's: said to it with every command. Absent: directories that it makes. */
  readonly systemdCgroup?: true;
}

/** Both must exist. */
export interface CheckpointFolders {
  readonly imageDir: string;
  readonly workDir: string;
}

const NO_SUCH_PROGRAM = 'no-such-program';

/** Whether the runtime was uninstalled since it made the container: then nobody can be asked any more. */
export function isUninstalled(error: unknown): boolean {
  return error instanceof GantryError && error.details['reason'] === NO_SUCH_PROGRAM;
}

/** What it is told before every command: where its state is, and who makes its cgroups. */
export function globalOptions({ root, systemdCgroup }: OciRuntimeLocation): string[] {
  return ['--root', root, ...(systemdCgroup === true ? ['--systemd-cgroup'] : [])];
}

/** The low-level runtime's commands. Creating is the monitor's business (`task/`). */
export class OciRuntime {
  readonly location: OciRuntimeLocation;

  constructor(location: OciRuntimeLocation) {
    this.location = location;
  }

  get name(): string {
    return this.location.name;
  }

  /** Runs the container's own command in a created container. Throws in the runtime's own words. */
  async start(op: Op, id: string): Promise<void> {
    await this.#must(op, ['start', id]);
  }

  /** True when it deleted something, false when the runtime knows no such container. Proves nothing about what it leaves. */
  async delete(op: Op, id: string, options: { readonly force?: boolean } = {}): Promise<boolean> {
    try {
      await this.#must(op, ['delete', ...(options.force === true ? ['--force'] : []), id]);
      return true;
    } catch (error) {
      if (isKind(error, 'NotFound')) return false;
      throw error;
    }
  }

  /**
   * Writes the memory of a running container, and all that its processes have open, to `imageDir` by CRIU, which leaves its own words in
   * `workDir`. The container goes on. Is not to be broken off: CRIU works inside the container's processes. Throws in the runtime's own words.
   */
  async checkpoint(op: Op, id: string, { imageDir, workDir }: CheckpointFolders): Promise<void> {
    const folders = ['--image-path', imageDir, '--work-path', workDir];
    const args = ['checkpoint', ...folders, '--leave-running', '--file-locks', '--tcp-established', id];
    // It looks for CRIU itself, and CRIU for tar and iptables.
    await this.#must(op, args, { env: { ...process.env, PATH: PROGRAM_FOLDERS.join(':') } });
  }

  /** Undefined when the runtime knows no such container. */
  async state(op: Op, id: string): Promise<OciState | undefined> {
    const result = await this.#run(op, ['state', id]);
    if (result.code === 0) return JSON.parse(result.stdout) as OciState;
    const error = classifyRuntimeError(this.name, 'state', result.stderr);
    if (isKind(error, 'NotFound')) return undefined;
    throw error;
  }

  async #must(op: Op, args: readonly string[], options: ExecOptions = {}): Promise<void> {
    const result = await this.#run(op, args, options);
    if (result.code === 0) return;
    const words = result.stderr.trim() === '' ? result.stdout : result.stderr;
    throw classifyRuntimeError(
      this.name,
      args[0] ?? '',
      words.trim() === '' ? `ended with ${result.signal ?? `code ${String(result.code)}`} and said nothing` : words,
    );
  }

  async #run(op: Op, args: readonly string[], options: ExecOptions = {}): Promise<ExecResult> {
    try {
      return await waitingFor(op, `${this.name} ${args[0] ?? ''}`, () =>
        execFile(op, this.location.path, [...globalOptions(this.location), ...args], options),
      );
    } catch (error) {
      // A missing program must not pass for a missing container.
      if (isKind(error, 'NotFound')) {
        throw new GantryError('FailedPrecondition', `OCI runtime ${this.location.path}: no such program`, {
          cause: error,
          details: { reason: NO_SUCH_PROGRAM },
        });
      }
      throw error;
    }
  }
}
