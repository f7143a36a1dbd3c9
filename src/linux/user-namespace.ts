import { readlink, writeFile } from 'node:fs/promises';
import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { failedPrecondition, internal } from '../lib/errors.ts';
import { NO_FAULTS, type FaultPoints } from '../lib/fault-points.ts';
import { fromNodeError } from './errno.ts';
import { mapText, type IdMappings } from './id-mappings.ts';
import { inputPipe, type InputPipe } from './pipe.ts';
import { spawnProcess, type Child } from './spawn.ts';

const LOOK_MS = 2;

/**
 * A process in a user namespace of its own, which others of its namespaces belong to. A process with threads, as we are, cannot enter a
 * user namespace: so a program makes it, and lives until it is pinned. It waits for the end of a pipe of ours, and so ends with us, too.
 */
export class UserNamespaceHolder implements AsyncDisposable {
  readonly pid: number;
  readonly #child: Child;
  readonly #lifeline: InputPipe;

  private constructor(child: Child, lifeline: InputPipe) {
    this.pid = child.pid;
    this.#child = child;
    this.#lifeline = lifeline;
  }

  /** Throws FailedPrecondition when the host has no `unshare`, or allows no user namespace. */
  static async make(
    op: Op,
    { clock, faults = NO_FAULTS }: { readonly clock: Clock; readonly faults?: FaultPoints },
    mappings: IdMappings,
    kinds: readonly ('net' | 'ipc' | 'uts')[],
  ): Promise<UserNamespaceHolder> {
    const lifeline = inputPipe();
    const args = ['--user', ...kinds.map((kind) => `--${kind}`), 'cat'];
    const child = await spawnProcess({
      file: 'unshare',
      args,
      cwd: '/',
      env: process.env,
      fds: [lifeline.readFd, null, null],
    })
      .catch((error: unknown) => {
        lifeline.writer.destroy();
        throw failedPrecondition('a user namespace needs the program unshare: install the package util-linux', {
          cause: error,
        });
      })
      .finally(() => {
        lifeline.closeReader();
      });
    const holder = new UserNamespaceHolder(child, lifeline);
    try {
      await faults.reach('hold-namespaces/begun');
      await holder.#entered(op, clock);
      for (const [file, ids] of [['gid_map', mappings.gids] as const, ['uid_map', mappings.uids] as const]) {
        await writeFile(`/proc/${String(child.pid)}/${file}`, mapText(ids), { flag: 'r+' }).catch((error: unknown) => {
          throw fromNodeError(error, `map ids of a user namespace (${file} ${mapText(ids).trim()})`);
        });
      }
      await faults.reach('hold-namespaces/mapped');
      return holder;
    } catch (error) {
      await holder[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #entered(op: Op, clock: Clock): Promise<void> {
    const own = await readlink('/proc/self/ns/user');
    for (;;) {
      if (this.#child.exit !== undefined) {
        throw failedPrecondition('this host makes no user namespace: see user.max_user_namespaces (sysctl)');
      }
      const its = await readlink(`/proc/${String(this.pid)}/ns/user`).catch(() => own);
      if (its !== own) return;
      if (op.signal.aborted) throw internal('making a user namespace took too long');
      await clock.sleep(LOOK_MS, op.signal);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#child.exited;
    this.#lifeline.writer.destroy();
  }
}
