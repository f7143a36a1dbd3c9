import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { connectCri, type CriConnection } from '../../../src/cri/client.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import type { TempRoot } from '../../support/temp-root.ts';
import type { OpenOptions, Places } from './runtime-fixture.ts';

const LAUNCH = new URL('../../../bin/launch', import.meta.url).pathname;
const PROGRAM = 'test/integration/runtime/daemon.ts';

export type DaemonOptions = Omit<OpenOptions, 'faults' | 'diskFailure'>;

/** A runtime in a process of its own, so that it can be killed as a daemon is. */
export class DaemonProcess implements AsyncDisposable {
  readonly #root: TempRoot;
  readonly #options: DaemonOptions;
  #child: ChildProcess | undefined;
  #connection: CriConnection | undefined;

  constructor(root: TempRoot, options: DaemonOptions = {}) {
    this.#root = root;
    this.#options = options;
  }

  get cri(): CriConnection {
    if (this.#connection === undefined) throw new Error('the daemon does not run');
    return this.#connection;
  }

  get pid(): number {
    const pid = this.#child?.pid;
    if (pid === undefined) throw new Error('the daemon does not run');
    return pid;
  }

  /** Returns when it answers. */
  async start(): Promise<void> {
    const { data, state, netnsDir, instance, cgroupParent, cgroupDriver } = this.#root;
    const { cniConfDir, registryConfigDir, criSocket } = this.#root;
    const places: Places = {
      ...{ data, state, netnsDir, instance, cgroupParent, cgroupDriver },
      ...{ cniConfDir, registryConfigDir, criSocket },
    };
    const child = spawn(LAUNCH, [PROGRAM], {
      env: { ...process.env, PLACES: JSON.stringify(places), OPTIONS: JSON.stringify(this.#options) },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#child = child;
    await Promise.race([
      once(child.stdout, 'data'),
      once(child, 'exit').then(() => {
        throw new Error('the daemon ended before it served');
      }),
    ]);
    this.#connection = connectCri(criSocket);
  }

  /** What its own thread has in use after a collection, in bytes. */
  async usedMemoryBytes(): Promise<number> {
    const stdout = this.#child?.stdout;
    if (stdout === undefined || stdout === null) throw new Error('the daemon does not run');
    const said = once(stdout, 'data') as Promise<[Buffer]>;
    process.kill(this.pid, 'SIGUSR2');
    const [words] = await said;
    const bytes = /^memory (\d+)/.exec(words.toString('utf8'))?.[1];
    if (bytes === undefined) throw new Error(`the daemon said ${words.toString('utf8')}`);
    return Number(bytes);
  }

  async kill(): Promise<void> {
    this.#connection?.close();
    this.#connection = undefined;
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null) return;
    const exit = once(child, 'exit');
    child.kill('SIGKILL');
    await exit;
  }

  async restart(between: () => Promise<void> = () => Promise.resolve()): Promise<void> {
    await this.kill();
    await between();
    await this.start();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }
}

/** Asks until the answer is as wanted. */
export async function eventually<T>(ask: () => Promise<T>, done: (answer: T) => boolean, what: string): Promise<T> {
  const endMs = performance.now() + 60_000;
  for (;;) {
    const answer = await ask();
    if (done(answer)) return answer;
    if (performance.now() > endMs)
      throw new Error(`${what} did not come about: ${JSON.stringify(answer, bigintAsText)}`);
    await systemClock.sleep(20);
  }
}

function bigintAsText(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}
