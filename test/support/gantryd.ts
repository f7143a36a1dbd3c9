import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile, writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { ContainerState } from '../../src/cri/gen/api.ts';
import { connectCri, type CriConnection } from '../../src/cri/client.ts';
import { connectApi } from '../../src/kube/http/connect.ts';
import type { ApiConnection } from '../../src/kube/gantry-extensions.ts';
import type { Event, New, Pod } from '../../src/kube/objects.ts';
import type { Op } from '../../src/lib/abort.ts';
import { isKind } from '../../src/lib/errors.ts';
import { silentLog } from '../../src/lib/log.ts';
import { busyboxRootfs } from './busybox.ts';
import { tarOf } from './tar.ts';
import { TempRoot } from './temp-root.ts';

/** Those of the checkout. */
const PROGRAMS: Programs = {
  gantryd: new URL('../../bin/gantryd', import.meta.url).pathname,
  gantry: new URL('../../bin/gantry', import.meta.url).pathname,
};
/** Nothing here is about speed: a machine that is twenty times slower gets through as well. */
const PATIENCE_MS = 180_000;
const LOOK_AGAIN_MS = 100;
const LAST_WORDS = 15;

/** The image that `withImage` makes of this machine's busybox. */
export const IMAGE = 'localhost/gantry/busybox:1';

export const op: Op = { signal: new AbortController().signal, log: silentLog };

export interface CliOutcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Programs {
  readonly gantryd: string;
  readonly gantry: string;
}

export interface GantrydOptions {
  readonly root?: TempRoot;
  readonly flags?: readonly string[];
  /** Others than the checkout's. */
  readonly programs?: Programs;
}

export interface RunningCli extends AsyncDisposable {
  /** What it has printed so far. */
  readonly stdout: () => string;
  readonly stderr: () => string;
  readonly ended: Promise<CliOutcome>;
  /** Writes to its stdin, where that was left open. */
  type(text: string): void;
  kill(signal: NodeJS.Signals): void;
}

/**
 * The whole daemon as a user has it: bin/gantryd in a process of its own on a temporary root, and bin/gantry to talk to it.
 * Disposing of it ends everything by force; check for leaks before.
 */
export class Gantryd implements AsyncDisposable {
  readonly root: TempRoot;
  readonly #flags: readonly string[];
  readonly #ownsRoot: boolean;
  readonly #programs: Programs;
  #child: ChildProcess | undefined;
  #api: ApiConnection | undefined;
  #cri: CriConnection | undefined;

  private constructor(root: TempRoot, { flags = [], programs = PROGRAMS, root: given }: GantrydOptions) {
    this.root = root;
    this.#flags = flags;
    this.#ownsRoot = given === undefined;
    this.#programs = programs;
  }

  /** Not started yet. A flag in `flags` wins over the root's own of the same name. */
  static async make(options: GantrydOptions = {}): Promise<Gantryd> {
    return new Gantryd(options.root ?? (await TempRoot.make()), options);
  }

  /** Started, with {@link IMAGE} in its store. */
  static async withImage(options: Omit<GantrydOptions, 'root'> = {}): Promise<Gantryd> {
    const daemon = await Gantryd.make(options);
    try {
      await daemon.start();
      await daemon.importImage();
      return daemon;
    } catch (error) {
      await daemon[Symbol.asyncDispose]();
      throw error;
    }
  }

  get pid(): number {
    const pid = this.#child?.pid;
    assert.ok(pid, 'gantryd does not run');
    return pid;
  }

  get api(): ApiConnection {
    assert.ok(this.#api, 'gantryd does not run');
    return this.#api;
  }

  get cri(): CriConnection {
    assert.ok(this.#cri, 'gantryd does not run');
    return this.#cri;
  }

  get #logPath(): string {
    return join(this.root.dir, 'gantryd.log');
  }

  /** Everything that the daemons of this root have logged. */
  async log(): Promise<string> {
    return await readFile(this.#logPath, 'utf8').catch(() => '');
  }

  /** Returns when it serves and, unless `agent` is false, when its agent looks after pods. */
  async start(options: { readonly agent?: boolean } = {}): Promise<void> {
    const log = await open(this.#logPath, 'a');
    const level = process.env['GANTRY_TEST_LOG'] === undefined ? [] : ['--log-level=debug'];
    const named = process.env['GANTRY_TEST_OCI_RUNTIME'];
    const ociRuntime = named === undefined ? [] : [`--oci-runtime=${named}`];
    const child = spawn(this.#programs.gantryd, [...this.root.flags(), ...level, ...ociRuntime, ...this.#flags], {
      stdio: ['ignore', log.fd, log.fd],
      cwd: '/',
    });
    await log.close();
    this.#child = child;
    const state = { ended: false };
    child.once('exit', () => (state.ended = true));
    this.#api = await connectApi(`unix://${this.root.apiSocket}`);
    this.#cri = connectCri(this.root.criSocket);
    const { cri } = this;
    await eventually(
      async () => {
        if (state.ended) throw new Error(`gantryd ended before it served:\n${await this.#lastWords()}`);
        if (options.agent === false) return await answers(cri.runtime.version(op, { version: '' }));
        return (await this.#serves(child)) && (await isReadyAt(this.root.apiSocket));
      },
      Boolean,
      'a gantryd that serves',
    );
  }

  /** It, and not another one on the same root. */
  async #serves(child: ChildProcess): Promise<boolean> {
    const text = await readFile(join(this.root.state, 'gantryd.pid'), 'utf8').catch(() => '');
    return text.startsWith(`${String(child.pid)} `);
  }

  async #lastWords(): Promise<string> {
    return (await this.log()).trimEnd().split('\n').slice(-LAST_WORDS).join('\n');
  }

  /** SIGTERM or SIGKILL to the daemon; resolves with its exit code when it is gone. */
  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<number | null> {
    await this.#api?.close();
    this.#cri?.close();
    this.#api = this.#cri = undefined;
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined) return null;
    if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
    const exit = once(child, 'exit');
    child.kill(signal);
    const [code] = (await exit) as [number | null];
    return code;
  }

  async restart(signal: 'SIGTERM' | 'SIGKILL', between: () => Promise<void> = () => Promise.resolve()): Promise<void> {
    await this.end(signal);
    await between();
    await this.start();
  }

  /** Runs bin/gantry to its end, whatever that is. */
  async cli(args: readonly string[], input: string | Buffer = ''): Promise<CliOutcome> {
    return await this.background(args, input).ended;
  }

  /** Runs bin/gantry, which has to succeed; returns what it printed. */
  async gantry(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await this.cli(args);
    assert.equal(code, 0, `gantry ${args.join(' ')}: ${stdout}${stderr}`);
    return stdout;
  }

  /** Its stdin is `input` and its end; with null it stays open. */
  background(args: readonly string[], input: string | Buffer | null = ''): RunningCli {
    const child = spawn(this.#programs.gantry, ['--api', `unix://${this.root.apiSocket}`, ...args], { stdio: 'pipe' });
    const out: Buffer[] = [];
    const err: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => out.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => err.push(chunk));
    child.stdin.on('error', () => undefined);
    if (input !== null) child.stdin.end(input);
    const stdout = (): string => Buffer.concat(out).toString('utf8');
    const stderr = (): string => Buffer.concat(err).toString('utf8');
    const ended = once(child, 'close').then(([code]): CliOutcome => {
      return { code: (code as number | null) ?? -1, stdout: stdout(), stderr: stderr() };
    });
    return {
      stdout,
      stderr,
      ended,
      type: (text) => child.stdin.write(text),
      kill: (signal) => child.kill(signal),
      [Symbol.asyncDispose]: async () => {
        child.kill('SIGKILL');
        await ended;
      },
    };
  }

  /** `gantry apply -f -`, which has to succeed. */
  async apply(manifest: string | object, ...args: readonly string[]): Promise<string> {
    const text = typeof manifest === 'string' ? manifest : JSON.stringify(manifest);
    const { code, stdout, stderr } = await this.cli(['apply', '-f', '-', ...args], text);
    assert.equal(code, 0, `gantry apply: ${stdout}${stderr}\n${code === 0 ? '' : await this.#lastWords()}`);
    return stdout;
  }

  /** Makes a pod through the API alone: at once, and without the start of a program, which costs more than all the rest on a slow machine. */
  async create(pod: object): Promise<void> {
    await this.api.kube.create(op, 'pods', pod as New<Pod>);
  }

  /** Asks for the end of a pod, likewise, and does not wait for it. */
  async delete(name: string, gracePeriodSeconds?: number): Promise<void> {
    const options = gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds };
    await this.api.kube.delete(op, 'pods', { namespace: 'default', name }, options);
  }

  /** Makes {@link IMAGE}. */
  async importImage(): Promise<void> {
    const tar = join(this.root.dir, 'busybox.tar');
    await writeFile(tar, await tarOf(await busyboxRootfs()));
    await this.gantry('image', 'import', '--rootfs', tar, '--entrypoint', '/bin/sh', IMAGE);
  }

  async pod(name: string): Promise<Pod | undefined> {
    try {
      return await this.api.kube.get(op, 'pods', { namespace: 'default', name });
    } catch (error) {
      if (isKind(error, 'NotFound')) return undefined;
      throw error;
    }
  }

  /** Until the pod is as wanted. */
  async podWhen(name: string, wanted: (pod: Pod) => boolean, what: string): Promise<Pod> {
    const pod = await eventually(
      () => this.pod(name),
      (found) => found !== undefined && wanted(found),
      `pod ${name}: ${what}`,
    );
    assert.ok(pod);
    return pod;
  }

  async ready(name: string): Promise<Pod> {
    return await this.podWhen(name, isReady, 'ready');
  }

  async gone(name: string): Promise<void> {
    await eventually(
      () => this.pod(name),
      (pod) => pod === undefined,
      `pod ${name}: gone`,
    );
  }

  /** Ends by force whatever pods there are: for after a test, so that one that has failed does not spoil the next. */
  async endPods(): Promise<void> {
    if (this.#api === undefined) return;
    const { items } = await this.api.kube.list(op, 'pods');
    for (const { metadata } of items) {
      const key = { name: metadata.name, namespace: metadata.namespace };
      await answers(this.api.kube.delete(op, 'pods', key, { gracePeriodSeconds: 0 }));
      await this.gone(metadata.name);
    }
  }

  /** Of one pod, oldest first. */
  async eventsOf(name: string): Promise<Event[]> {
    const fieldSelector = `involvedObject.name=${name}`;
    return (await this.api.kube.list(op, 'events', { namespace: 'default', fieldSelector })).items;
  }

  async eventWhen(name: string, reason: string, words: RegExp): Promise<Event> {
    const matches = (event: Event): boolean => event.reason === reason && words.test(event.message ?? '');
    const found = await eventually(
      () => this.eventsOf(name),
      (events) => events.some(matches),
      `event ${reason} of pod ${name} with ${String(words)}`,
    );
    const event = found.find(matches);
    assert.ok(event);
    return event;
  }

  /** Host pid of the first process of each container of a pod that runs, by the container's name. */
  async pids(name: string): Promise<Map<string, number>> {
    const { containers } = await this.cri.runtime.listContainers(op, { filter: undefined });
    const mine = containers.filter(({ labels }) => labels['io.kubernetes.pod.name'] === name);
    const pids = new Map<string, number>();
    for (const { id, metadata } of mine) {
      const { info } = await this.cri.runtime.containerStatus(op, { containerId: id, verbose: true });
      const { pid } = JSON.parse(info['info'] ?? '{}') as { pid?: number };
      if (pid !== undefined && pid > 0) pids.set(metadata?.name ?? '', pid);
    }
    return pids;
  }

  /** What a shell in the first container of a pod that runs prints, by CRI: without the start of a program of ours. It has to succeed. */
  async shell(name: string, script: string): Promise<string> {
    const { containers } = await this.cri.runtime.listContainers(op, { filter: undefined });
    const running = containers.find(
      ({ labels, state }) => labels['io.kubernetes.pod.name'] === name && state === ContainerState.CONTAINER_RUNNING,
    );
    assert.ok(running, `no container of pod ${name} runs`);
    const request = { containerId: running.id, cmd: ['/bin/sh', '-c', script], timeout: 60n };
    const { exitCode, stdout, stderr } = await this.cri.runtime.execSync(op, request);
    assert.equal(exitCode, 0, `${script}: ${Buffer.from(stderr).toString()}`);
    return Buffer.from(stdout).toString().trim();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end('SIGKILL');
    if (this.#ownsRoot) await this.root[Symbol.asyncDispose]();
  }
}

export function isReady(pod: Pod): boolean {
  return pod.status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True';
}

/** Asks until the answer is as wanted, with patience; the last answer is in the failure's message. */
export async function eventually<T>(ask: () => Promise<T>, done: (answer: T) => boolean, what: string): Promise<T> {
  const endMs = performance.now() + PATIENCE_MS;
  for (;;) {
    const answer = await ask();
    if (done(answer)) return answer;
    if (performance.now() > endMs) throw new Error(`${what}: did not come about, but ${JSON.stringify(answer)}`);
    await new Promise((next) => setTimeout(next, LOOK_AGAIN_MS));
  }
}

async function isReadyAt(socketPath: string): Promise<boolean> {
  return await new Promise((resolve) => {
    get({ socketPath, path: '/readyz', agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    }).on('error', () => resolve(false));
  });
}

async function answers(question: Promise<unknown>): Promise<boolean> {
  return await question.then(
    () => true,
    () => false,
  );
}

/** A TCP port that nobody listens on now. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => {
    server.listen(0, resolve);
  });
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export interface TestContainer {
  readonly name?: string;
  /** For `/bin/sh -c`. */
  readonly script?: string;
  readonly [field: string]: unknown;
}

/** A pod of busybox containers; each sleeps unless it has a script or a command. */
export function podOf(name: string, containers: readonly TestContainer[], spec: Record<string, unknown> = {}): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name },
    spec: {
      terminationGracePeriodSeconds: 10,
      ...spec,
      containers: containers.map(({ script, ...rest }, index) => ({
        name: index === 0 ? 'main' : `c${String(index)}`,
        image: IMAGE,
        imagePullPolicy: 'Never',
        command: ['/bin/sh', '-c', script ?? SLEEP],
        ...rest,
      })),
    },
  };
}

/** Runs until it is asked to end, and then ends at once. */
export const SLEEP = 'trap "exit 0" TERM; while :; do sleep 1 & wait $!; done';
