import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, constants, mkdir, open, readdir, readFile, rename, rmdir } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { execFile } from '../../src/linux/exec.ts';
import { silentLog } from '../../src/lib/log.ts';
import { readSpecReport, type SpecResult } from './spec-report.ts';

/** The suite's programs on this machine. */
export interface Programs {
  readonly critest: string;
  /** Needed to run specs side by side. */
  readonly ginkgo?: string;
}

export interface SuiteOptions {
  readonly socket: string;
  /** Report, log and the suite's own temporary files (host paths, pods' logs, seccomp profiles) are below it. */
  readonly folder: string;
  readonly parallel: number;
  readonly seed: number;
  readonly focus: readonly string[];
  readonly skip: readonly string[];
  /** Exec, attach and port-forward over WebSocket in place of SPDY. */
  readonly webSocket: boolean;
  readonly timeoutSeconds: number;
  /** A program and its arguments that everything is run by: to be in another process's namespaces. */
  readonly within: readonly string[];
  readonly signal: AbortSignal;
}

const KILL_AFTER_MS = 10_000;
/** The suite ends by its own limit first, and then still says what it has seen. */
const OUR_LIMIT_MS = 60_000;
const LAST_WORDS = 20;

/** `CRITEST`, else `critest` on the PATH. Undefined when there is none. */
export async function findPrograms(env: NodeJS.ProcessEnv): Promise<Programs | undefined> {
  const named = env['CRITEST'] ?? '';
  const critest = named === '' ? await onPath('critest', env) : named;
  if (critest === undefined) return undefined;
  const ginkgo = await onPath('ginkgo', env);
  return { critest, ...(ginkgo === undefined ? {} : { ginkgo }) };
}

async function onPath(name: string, env: NodeJS.ProcessEnv): Promise<string | undefined> {
  for (const folder of (env['PATH'] ?? '').split(delimiter)) {
    if (folder === '') continue;
    const path = join(folder, name);
    const found = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (found) return path;
  }
  return undefined;
}

/** The words of `critest --version`. Throws when it cannot be run. */
export async function versionOf({ critest }: Programs): Promise<string> {
  const { stdout } = await execFile({ signal: AbortSignal.timeout(30_000), log: silentLog }, critest, ['--version']);
  return /^critest version: (\S+)/m.exec(stdout)?.[1] ?? 'of unknown version';
}

/**
 * Runs the suite to its end and returns what became of every spec. A suite that left no report rejects with its last words. When the signal
 * fires it is ended, with all that it has started.
 */
export async function runSuite({ critest }: Programs, options: SuiteOptions): Promise<SpecResult[]> {
  const { folder, within, signal, timeoutSeconds } = options;
  const tmp = join(folder, 'tmp');
  await mkdir(tmp, { recursive: true });
  // Another mount namespace is entered at its root, and reports go where the suite is.
  const here = ['sh', '-c', 'cd "$1" && shift && exec "$@"', 'sh', folder];
  const [file = '', ...args] = [...within, ...here, critest, ...argumentsOf(options)];
  const logPath = join(folder, 'critest.log');
  const log = await open(logPath, 'w');
  // A group of its own, so that ginkgo's processes can be ended with it.
  const child = spawn(file, args, {
    stdio: ['ignore', log.fd, log.fd],
    cwd: folder,
    detached: true,
    env: { ...withoutProxies(process.env), TMPDIR: tmp },
  });
  await log.close();
  const tell = (name: NodeJS.Signals): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, name);
    } catch {
      // gone already
    }
  };
  let timer: NodeJS.Timeout | undefined;
  const end = (): void => {
    tell('SIGTERM');
    timer = setTimeout(() => tell('SIGKILL'), KILL_AFTER_MS);
  };
  const limit = setTimeout(end, timeoutSeconds * 1000 + OUR_LIMIT_MS);
  signal.addEventListener('abort', end, { once: true });
  try {
    await once(child, 'close');
    tell('SIGKILL');
  } finally {
    signal.removeEventListener('abort', end);
    clearTimeout(limit);
    clearTimeout(timer);
  }
  signal.throwIfAborted();
  return readSpecReport(await reportIn(folder, tmp, logPath));
}

/** The suite asks pods, which no proxy can reach. */
function withoutProxies(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^(https?|all)_proxy$/i.test(name)));
}

function argumentsOf(options: SuiteOptions): string[] {
  const { socket, parallel, seed, focus, skip, webSocket, timeoutSeconds } = options;
  return [
    `-runtime-endpoint=unix://${socket}`,
    // No file of the machine's or of the current folder is to say anything.
    '-config=/nonexistent',
    ...(webSocket ? ['-websocket-exec', '-websocket-attach', '-websocket-portforward'] : []),
    ...(parallel > 1 ? [`-parallel=${String(parallel)}`] : []),
    '-ginkgo.json-report=report.json',
    '-ginkgo.junit-report=junit.xml',
    '-ginkgo.no-color',
    `-ginkgo.timeout=${String(timeoutSeconds)}s`,
    `-ginkgo.seed=${String(seed)}`,
    ...focus.map((pattern) => `-ginkgo.focus=${pattern}`),
    ...skip.map((pattern) => `-ginkgo.skip=${pattern}`),
  ];
}

/** Side by side, the reports are beside the link that critest makes of itself; they come where they are otherwise. */
async function reportIn(folder: string, tmp: string, logPath: string): Promise<string> {
  for (const name of await readdir(tmp)) {
    if (!name.startsWith('cri-test')) continue;
    for (const report of ['report.json', 'junit.xml']) {
      await rename(join(tmp, name, report), join(folder, report)).catch(() => undefined);
    }
    await rmdir(join(tmp, name)).catch(() => undefined);
  }
  await rmdir(tmp).catch(() => undefined);
  try {
    return await readFile(join(folder, 'report.json'), 'utf8');
  } catch (error) {
    const words = (await readFile(logPath, 'utf8')).trimEnd().split('\n').slice(-LAST_WORDS).join('\n');
    throw new Error(`critest left no report:\n${words}`, { cause: error });
  }
}
