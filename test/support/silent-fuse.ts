import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { execFile } from '../../src/linux/exec.ts';
import { silentLog } from '../../src/lib/log.ts';

const LAUNCH = new URL('../../bin/launch', import.meta.url).pathname;
const PROGRAM = 'test/support/silent-fuse-server.ts';
type Server = ChildProcessByStdio<null, Readable, null>;

const op = { signal: new AbortController().signal, log: silentLog };

/**
 * A mount with a file `silent`: a process that opens it is in state D and outlives SIGKILL, the same on every layout of cgroups, until
 * {@link end}. As with a dead network share, but ended when the test says so.
 */
export class SilentFuse implements AsyncDisposable {
  readonly dir: string;
  readonly #server: Server;
  readonly #lines: AsyncIterator<string>;

  private constructor(dir: string, server: Server, lines: AsyncIterator<string>) {
    this.dir = dir;
    this.#server = server;
    this.#lines = lines;
  }

  static async mount(dir: string): Promise<SilentFuse> {
    await mkdir(dir);
    const server = spawn(LAUNCH, [PROGRAM, dir], { stdio: ['ignore', 'pipe', 'inherit'] });
    const lines = createInterface({ input: server.stdout })[Symbol.asyncIterator]();
    const mounted = new SilentFuse(dir, server, lines);
    await mounted.#nextLine('mounted');
    return mounted;
  }

  get file(): string {
    return join(this.dir, 'silent');
  }

  /** Whoever looks at it (stat) hangs likewise. */
  lost(which: number): string {
    return join(this.dir, `lost-${which}`);
  }

  /** Not there; whoever makes it, a file or a folder, hangs likewise. Each in a folder of its own, where the kernel has them wait one by one. */
  missing(which: number): string {
    return join(this.dir, `folder-${which}`, 'missing');
  }

  /** Returns when one more process has opened {@link file}, looked at what is lost, or makes something: it does not die of SIGKILL any more. */
  async opened(): Promise<void> {
    await this.#nextLine('taken');
  }

  async #nextLine(wanted: string): Promise<void> {
    const line: IteratorResult<string, unknown> = await this.#lines.next();
    if (line.value !== wanted) throw new Error(`the file system's process has ended instead of saying ${wanted}`);
  }

  /** Whoever waits for it gets an error, and dies if it was killed. */
  async end(): Promise<void> {
    if (this.#server.exitCode !== null || this.#server.signalCode !== null) return;
    const exit = once(this.#server, 'exit');
    this.#server.kill('SIGKILL');
    await exit;
    await execFile(op, 'umount', ['-l', this.dir]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
  }
}
