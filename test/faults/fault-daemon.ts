import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { connectCri, type CriConnection } from '../../src/cri/client.ts';
import { isKind, messageOf } from '../../src/lib/errors.ts';
import type { Places } from '../integration/runtime/runtime-fixture.ts';
import { RECOVERY_POINTS } from './cases.ts';
import { KILLED_AT } from './planned-faults.ts';

const LAUNCH = new URL('../../bin/launch', import.meta.url).pathname;
const PROGRAM = 'test/faults/daemon.ts';
/** Between the end of a connection and the news of the process's end. */
const NEWS_OF_DEATH_MS = 2_000;
const ASK_AGAIN_MS = 100;
/** For one question with all its repetitions, from the last death on; a machine that emulates another one is 20 times slower. */
const PATIENCE_MS = 300_000;

interface Running {
  readonly child: ChildProcess;
  readonly connection: CriConnection;
  readonly exited: Promise<unknown>;
  /** What it said last, when it is dead. */
  readonly lastWords: Promise<string>;
}

/**
 * A runtime in a process of its own that dies as planned, and is started again by whoever asks next, as a service manager and
 * kubelet do it together.
 */
export class FaultDaemon implements AsyncDisposable {
  readonly #places: Places;
  readonly #between: () => Promise<void>;
  #plans: readonly string[] = [];
  #eachRecovery = false;
  #running: Promise<Running> | undefined;
  /** The points at which a daemon has died, in order. */
  #killedAt: string[] = [];
  #diedMs = 0;
  #closed = false;

  /** `between` is called after each kill, while no daemon runs. */
  constructor(root: Places, between: () => Promise<void> = () => Promise.resolve()) {
    const { data, state, netnsDir, instance, cgroupParent, cgroupDriver } = root;
    const { cniConfDir, registryConfigDir, criSocket } = root;
    this.#places = {
      ...{ data, state, netnsDir, instance, cgroupParent, cgroupDriver },
      ...{ cniConfDir, registryConfigDir, criSocket },
    };
    this.#between = between;
  }

  get killedAt(): readonly string[] {
    return this.#killedAt;
  }

  /** So long nobody has died: a life in which twenty daemons die takes its time, on a slow machine many minutes. */
  quietSinceMs(startMs: number): number {
    return performance.now() - Math.max(startMs, this.#diedMs);
  }

  /**
   * From the next start on each daemon has the next plan. Those after the last have none, or, with `eachRecovery`, are to die at the first
   * step of their recovery at which none of them has died yet.
   */
  plan(plans: readonly string[], eachRecovery: boolean): void {
    this.#plans = plans;
    this.#eachRecovery = eachRecovery;
    this.#killedAt = [];
  }

  get #nextPlan(): string {
    const deaths = this.#killedAt.length;
    const next = this.#plans[deaths];
    if (next !== undefined) return next;
    if (!this.#eachRecovery) return '';
    const done = this.#killedAt.slice(this.#plans.length);
    return RECOVERY_POINTS.filter((point) => !done.includes(point)).join(',');
  }

  /** Asks until there is an answer, as kubelet repeats a call that broke off. Any other failure is thrown. */
  async ask<T>(question: (cri: CriConnection) => Promise<T>): Promise<T> {
    const startMs = performance.now();
    for (;;) {
      const running = await this.#alive();
      try {
        return await question(running.connection);
      } catch (error) {
        const died = await this.#hasDied(running, isBroken(error));
        if (!died && !isBroken(error)) throw error;
        if (this.quietSinceMs(startMs) > PATIENCE_MS)
          throw new Error(`no answer in time: ${messageOf(error)}`, { cause: error });
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
          GANTRY_FAULT: this.#nextPlan,
        },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const exited = once(child, 'exit');
      const lines = createInterface({ input: child.stdout });
      const lastWords = lastLine(lines);
      await Promise.race([once(lines, 'line'), exited]);
      const running = { child, exited, lastWords, connection: connectCri(this.#places.criSocket) };
      if (!hasExited(child)) return running;
      await this.#bury(running);
    }
  }

  async #bury({ child, connection, lastWords }: Running): Promise<void> {
    connection.close();
    if (child.signalCode !== 'SIGKILL') throw new Error(`the daemon ended by itself: ${String(child.exitCode)}`);
    const words = await lastWords;
    if (!words.startsWith(KILLED_AT)) throw new Error('the daemon was killed, and not by itself');
    this.#diedMs = performance.now();
    this.#killedAt.push(words.slice(KILLED_AT.length));
    await this.#between();
  }

  async #hasDied({ child, exited }: Running, expected: boolean): Promise<boolean> {
    if (expected) await Promise.race([exited, sleep(NEWS_OF_DEATH_MS)]);
    return hasExited(child);
  }
}

async function lastLine(lines: AsyncIterable<string>): Promise<string> {
  let last = '';
  for await (const line of lines) last = line;
  return last;
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
