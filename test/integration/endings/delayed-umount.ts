import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { access, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { readCmdline } from '../../../src/linux/procfs.ts';

const STRACE = '/usr/bin/strace';
const HELPER = /hang-safe-worker/;
/** Longer than any test: it is ended before. */
const DELAY_US = 3_600_000_000;
/** A helper takes longer than that from its start to its first unmount. */
const LOOK_MS = 10;

/** Whether {@link DelayedUmount} can be had here: nothing else delays one unmount and leaves the others alone. */
export async function canDelayUmount(): Promise<boolean> {
  return await access(STRACE).then(
    () => true,
    () => false,
  );
}

/**
 * The unmount of one path hangs in whatever helper process of a daemon it is tried, a killed one's successor too; the unmounts of
 * others go on. The daemon must have a helper now.
 */
export class DelayedUmount implements AsyncDisposable {
  readonly #path: string;
  readonly #daemonPid: number;
  readonly #tracers = new Map<number, ChildProcess>();
  #ended = false;
  #following: Promise<void> = Promise.resolve();

  private constructor(path: string, daemonPid: number) {
    this.#path = path;
    this.#daemonPid = daemonPid;
  }

  static async of(path: string, daemonPid: number): Promise<DelayedUmount> {
    const delayed = new DelayedUmount(path, daemonPid);
    await delayed.#traceNew();
    if (delayed.#tracers.size === 0) throw new Error('the daemon has no helper process now');
    delayed.#following = delayed.#follow();
    return delayed;
  }

  async end(): Promise<void> {
    this.#ended = true;
    await this.#following;
    for (const tracer of this.#tracers.values()) {
      if (tracer.exitCode !== null || tracer.signalCode !== null) continue;
      const exit = once(tracer, 'exit');
      // What was traced by a process that is killed goes on at once.
      tracer.kill('SIGKILL');
      await exit;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
  }

  async #follow(): Promise<void> {
    while (!this.#ended) {
      await sleep(LOOK_MS);
      await this.#traceNew();
    }
  }

  async #traceNew(): Promise<void> {
    const pid = String(this.#daemonPid);
    const children = (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim().split(' ').map(Number);
    for (const child of children) {
      if (this.#tracers.has(child) || child === 0) continue;
      if ((await readCmdline(child))?.some((word) => HELPER.test(word)) === true) await this.#trace(child);
    }
  }

  async #trace(pid: number): Promise<void> {
    const inject = ['-e', 'trace=umount2', '-P', this.#path, '-e', `inject=umount2:delay_enter=${String(DELAY_US)}`];
    const tracer = spawn(STRACE, ['-f', ...inject, '-p', String(pid)], { stdio: ['ignore', 'ignore', 'pipe'] });
    this.#tracers.set(pid, tracer);
    const [words] = (await once(tracer.stderr, 'data')) as [Buffer];
    if (!/attached/.test(words.toString())) throw new Error(`strace: ${words.toString()}`);
    tracer.stderr.resume();
  }
}
