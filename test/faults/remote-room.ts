import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import type { FaultLife, LifeOutcome } from './lives.ts';

const LAUNCH = new URL('../../bin/launch', import.meta.url).pathname;
const PROGRAM = 'test/faults/room-process.ts';

/** A room in a process and in namespaces of its own: the network of the host is left alone, and of no room by another. */
export class RemoteRoom implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;
  readonly #input: Writable;
  readonly #lines: AsyncIterator<string>;

  private constructor(child: ChildProcess, input: Writable, output: Readable) {
    this.#child = child;
    this.#exited = once(child, 'exit');
    this.#input = input;
    this.#lines = createInterface({ input: output })[Symbol.asyncIterator]();
  }

  static open(): RemoteRoom {
    const child = spawn('unshare', ['--net', '--mount', '--propagation', 'private', '--', LAUNCH, PROGRAM], {
      stdio: ['pipe', 'pipe', 'inherit'],
      // A ^C is for whoever hands out the lives: what was begun is finished, to leave nothing behind.
      detached: true,
    });
    return new RemoteRoom(child, child.stdin, child.stdout);
  }

  async run(life: FaultLife): Promise<LifeOutcome> {
    this.#input.write(`${JSON.stringify(life)}\n`);
    const line = await this.#lines.next();
    if (line.done === true) throw new Error('a room has ended by itself');
    return JSON.parse(line.value) as LifeOutcome;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#input.end();
    if (this.#child.exitCode === null && this.#child.signalCode === null) await this.#exited;
  }
}
