import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectCri, type CriConnection } from '../../src/cri/client.ts';
import type { Op } from '../../src/lib/abort.ts';
import { messageOf } from '../../src/lib/errors.ts';
import { silentLog } from '../../src/lib/log.ts';
import type { TempRoot } from '../support/temp-root.ts';
import type { Random } from './random.ts';

const DAEMON = new URL('../../bin/gantryd', import.meta.url).pathname;
/** A machine that emulates another one takes its time. */
const SERVES_WITHIN_MS = 300_000;
const LAST_WORDS = 15;
/** For the next call that changes something. */
const LONGEST_WAIT_MS = 1_000;
const op: Op = { signal: new AbortController().signal, log: silentLog };

export interface Serving {
  readonly cri: CriConnection;
  /** Another one after each kill. */
  readonly life: number;
}

/** bin/gantryd, serving CRI alone on a root of its own; ended by SIGKILL and started again, again and again. */
export class KilledDaemon implements AsyncDisposable {
  readonly #root: TempRoot;
  #child: ChildProcess | undefined;
  #connection: CriConnection | undefined;
  #serving = Promise.withResolvers<Serving>();
  #life = 0;
  #nextChange = Promise.withResolvers<undefined>();
  kills = 0;

  constructor(root: TempRoot) {
    this.#root = root;
    this.#serving.promise.catch(() => undefined);
  }

  get life(): number {
    return this.#life;
  }

  get logPath(): string {
    return join(this.#root.dir, 'gantryd.log');
  }

  /** As soon as a daemon answers. Rejects when one ended by itself. */
  serving(): Promise<Serving> {
    return this.#serving.promise;
  }

  /** To be told of each call that changes something: most kills come while one is at work. */
  noteChange(): void {
    this.#nextChange.resolve(undefined);
    this.#nextChange = Promise.withResolvers();
  }

  /** Starts a process; {@link serving} tells when it answers. */
  async start(): Promise<void> {
    const log = await open(this.logPath, 'a');
    const level = process.env['GANTRY_TEST_LOG'] === undefined ? [] : ['--log-level=debug'];
    const child = spawn(DAEMON, [...this.#root.flags(), '--runtime-only', ...level], {
      stdio: ['ignore', log.fd, log.fd],
      cwd: '/',
      // A group of its own: Ctrl-C is for the soak, which ends it itself.
      detached: true,
    });
    await log.close();
    this.#child = child;
    const connection = connectCri(this.#root.criSocket);
    this.#connection = connection;
    const { reject, resolve } = this.#serving;
    const life = this.#life;
    child.once('exit', () => {
      if (this.#life === life) void this.#lastWords().then((words) => reject(new Error(`gantryd ended:\n${words}`)));
    });
    void this.#answers(connection, life).then(() => resolve({ cri: connection, life }), reject);
  }

  async #answers(connection: CriConnection, life: number): Promise<void> {
    const endMs = performance.now() + SERVES_WITHIN_MS;
    for (;;) {
      const error = await connection.runtime.version(op, { version: '' }).then(() => undefined, messageOf);
      if (error === undefined) return;
      // Killed before it answered: the next one fulfils the promise.
      if (this.#life !== life) return await new Promise<never>(() => undefined);
      if (performance.now() > endMs) throw new Error(`gantryd does not serve: ${error}`);
      await sleep(20);
    }
  }

  async kill(): Promise<void> {
    this.#life++;
    this.kills++;
    await this.#end();
  }

  async #end(): Promise<void> {
    const earlier = this.#serving;
    this.#serving = Promise.withResolvers();
    // Who waits for one that was killed before it answered gets the next one.
    this.#serving.promise.then(earlier.resolve, earlier.reject);
    const child = this.#child;
    this.#child = undefined;
    if (child?.exitCode === null && child.signalCode === null) {
      const exit = once(child, 'exit');
      child.kill('SIGKILL');
      await exit;
    }
    this.#connection?.close();
    this.#connection = undefined;
  }

  /** Kills and restarts until the signal fires; the last start has answered then. */
  async killAgainAndAgain(random: Random, enough: AbortSignal): Promise<void> {
    while (!enough.aborted) {
      // Mostly while it serves; now and then while it starts, which is a kill during recovery.
      if (random.chance(0.8)) await this.serving();
      const restMs = random.chance(0.8) ? random.between(1_000, 6_000) : random.between(0, 1_500);
      await sleep(restMs, undefined, { signal: enough }).catch(() => undefined);
      if (isOver(enough)) break;
      if (random.chance(0.7)) {
        await Promise.race([this.#nextChange.promise, sleep(LONGEST_WAIT_MS)]);
        await sleep(random.pick([random.between(0, 30), random.between(0, 150), random.between(0, 600)]));
      }
      await this.kill();
      await sleep(random.pick([0, 0, 200, random.between(0, 1_500)]));
      await this.start();
    }
    await this.serving();
  }

  async #lastWords(): Promise<string> {
    return (await readFile(this.logPath, 'utf8')).trimEnd().split('\n').slice(-LAST_WORDS).join('\n');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#life++;
    await this.#end();
  }
}

/** Asked anew: it may have fired while we waited. */
function isOver(signal: AbortSignal): boolean {
  return signal.aborted;
}
