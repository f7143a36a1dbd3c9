import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { connectCri, type CriConnection } from '../../src/cri/client.ts';
import { isKind, messageOf } from '../../src/lib/errors.ts';
import type { Places } from '../integration/runtime/runtime-fixture.ts';
import type { TempRoot } from '../support/temp-root.ts';

const LAUNCH = new URL('../../bin/launch', import.meta.url).pathname;
const PROGRAM = 'test/faults/daemon.ts';
/** Between the end of a connection and the news of the process's end. */
const NEWS_OF_DEATH_MS = 2_000;
const ASK_AGAIN_MS = 100;
/** For one question with all its repetitions; a machine that emulates another one is 20 times slower. */
const PATIENCE_MS = 300_000;

interface Running {
  readonly child: ChildProcess;
  readonly connection: CriConnection;
  readonly exited: Promise<unknown>;
}

/**
 * A runtime in a process of its own that dies as planned, and is started again by whoever asks next, as a service manager and
 * kubelet do it together.
 */
export class FaultDaemon implements AsyncDisposable {
  readonly #places: Places;
  readonly #between: () => Promise<void>;
  #plans: readonly string[] = [];
  #running: Promise<Running> | undefined;
  /** How many of the plans have killed their daemon. */
  #kills = 0;
  #closed = false;

  /** `between` is called after each kill, while no daemon runs. */
  constructor(root: TempRoot, between: () => Promise<void> = () => Promise.resolve()) {
    const { data, state, netnsDir, instance, cgroupParent, cniConfDir, registryConfigDir, criSocket } = root;
    this.#places = { data, state, netnsDir, instance, cgroupParent, cniConfDir, registryConfigDir, criSocket };
    this.#between = between;
  }

  get kills(): number {
    return this.#kills;
  }

  /** From the next start on each daemon has the next plan; those after the last have none. */
  plan(plans: readonly string[]): void {
    this.#plans = plans;
    this.#kills = 0;
  }

  /** Asks until there is an answer, as kubelet repeats a call that broke off. Any other failure is thrown. */
  async ask<T>(question: (cri: CriConnection) => Promise<T>): Promise<T> {
    const endMs = performance.now() + PATIENCE_MS;
    for (;;) {
      const running = await this.#alive();
      try {
        return await question(running.connection);
      } catch (error) {
        const died = await this.#hasDied(running, isBroken(error));
        if (!died && !isBroken(error)) throw error;
        if (performance.now() > endMs) throw new Error(`no answer in time: ${messageOf(error)}`, { cause: error });
        await sleep(ASK_AGAIN_MS);
      }
    }
  }

  async kill(): Promise<void> {
    const running = await this.#running?.catch(() => undefined);
    this.#running = undefined;
    if (running === undefined) return;
    running.connection.close();
    running.child.kill('SIGKILL');
    await running.exited;
  }

  /** Whoever still asks gets an error. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await this.kill();
  }

  /** One start for all who ask meanwhile. */
  async #alive(): Promise<Running> {
    for (;;) {
      const starting = (this.#running ??= this.#start());
      const running = await starting;
      if (!hasExited(running.child)) return running;
      if (this.#running === starting) this.#running = this.#bury(running).then(() => this.#start());
    }
  }

  async #start(): Promise<Running> {
    for (;;) {
      if (this.#closed) throw new Error('this daemon is not started any more');
      const child = spawn(LAUNCH, [PROGRAM], {
        env: {
          ...process.env,
          UV_THREADPOOL_SIZE: '16',
          PLACES: JSON.stringify(this.#places),
          GANTRY_FAULT: this.#plans[this.#kills] ?? '',
        },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const exited = once(child, 'exit');
      await Promise.race([once(child.stdout, 'data'), exited]);
      const running = { child, exited, connection: connectCri(this.#places.criSocket) };
      if (!hasExited(child)) return running;
      await this.#bury(running);
    }
  }

  async #bury({ child, connection }: Running): Promise<void> {
    connection.close();
    if (child.signalCode !== 'SIGKILL') throw new Error(`the daemon ended by itself: ${String(child.exitCode)}`);
    this.#kills++;
    await this.#between();
  }

  async #hasDied({ child, exited }: Running, expected: boolean): Promise<boolean> {
    if (expected) await Promise.race([exited, sleep(NEWS_OF_DEATH_MS)]);
    return hasExited(child);
  }
}

function hasExited({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}

/** What the other end's death looks like; a daemon that is not ready yet says the same. */
function isBroken(error: unknown): boolean {
  return isKind(error, 'Unavailable', 'Canceled', 'Unknown');
}

function sleep(ms: number): Promise<void> {
  return new Promise((next) => setTimeout(next, ms));
}
