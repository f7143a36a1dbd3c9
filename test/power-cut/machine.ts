import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { rmdir, writeFile } from 'node:fs/promises';
import { uptime } from 'node:os';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { cgroupFolders } from '../support/leak-probes.ts';

const BOOT = new URL('boot.sh', import.meta.url).pathname;
/** /proc/uptime of a machine that has just come up. */
const BOOTED_S_AGO = 20;
const LOOK_AGAIN_MS = 100;
const TURNS = 600;

/**
 * A machine inside this one, out of namespaces: mounts, processes, network, boot id and uptime of its own, on this one's disk.
 * Its power can be cut in a moment. What differs from a real cut: the disk loses nothing that was written and not yet synced.
 */
export class Machine implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  readonly #lines: AsyncIterableIterator<string>;
  readonly #cgroupParent: string;

  private constructor(child: ChildProcess, cgroupParent: string) {
    this.#child = child;
    this.#cgroupParent = cgroupParent;
    this.#ended = once(child, 'exit');
    if (child.stdout === null) throw new Error('no stdout');
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  /**
   * Runs one command there, as if by an init system; the machine is over when the command is. `bootIdFile` is written, and all groups
   * below `cgroupParent` go with the machine.
   */
  static async boot(
    { bootIdFile, cgroupParent }: { readonly bootIdFile: string; readonly cgroupParent: string },
    argv: readonly string[],
  ): Promise<Machine> {
    await writeFile(bootIdFile, `${randomUUID()}\n`);
    const earlier = `--boottime=-${String(Math.max(Math.floor(uptime()) - BOOTED_S_AGO, 0))}`;
    const kinds = ['--mount', '--pid', '--net', '--time', earlier, '--fork', '--mount-proc', '--kill-child'];
    return new Machine(
      spawn('unshare', [...kinds, BOOT, bootIdFile, ...argv], { stdio: ['ignore', 'pipe', 'inherit'], cwd: '/' }),
      cgroupParent,
    );
  }

  /** The command's next line on stdout; undefined when it has ended. */
  async line(): Promise<string | undefined> {
    const next = await this.#lines.next();
    return next.done === true ? undefined : next.value;
  }

  /** Every process of it is gone at once, with its mounts, links and namespaces. */
  async cut(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
    // Its first process dies with unshare, and the others with that one, which takes the kernel a moment.
    for (let turn = 0; turn < TURNS; turn++) {
      const left = await cgroupFolders([this.#cgroupParent]);
      if (left.length === 0) return;
      for (const folder of left.reverse()) await rmdir(folder).catch(() => undefined);
      await sleep(LOOK_AGAIN_MS);
    }
    throw new Error(`processes in ${this.#cgroupParent} outlive the machine`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cut();
  }
}
