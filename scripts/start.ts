/**
 * `npm start`: a running gantryd, a small image made from Debian's busybox, and the example pod serving a page.
 * Each step looks first and does only what is missing, so a second run changes nothing.
 */
import { spawn, spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync } from 'node:fs';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { systemClock } from '../src/lib/clock.ts';
import { silentLog } from '../src/lib/log.ts';
import { collides, hostListeners } from '../src/runtime/network/host-ports.ts';
import { makeBusyboxRootfs } from './busybox-rootfs.ts';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const gantry = join(root, 'bin/gantry');
const API_SOCKET = '/run/gantry/api.sock';
const DAEMON_LOG = '/var/log/gantry/gantryd.log';
const IMAGE = 'localhost/gantry/busybox:1';
const EXAMPLE = join(root, 'examples/hello.yaml');
const EXAMPLE_POD = 'http://localhost/api/v1/namespaces/default/pods/hello';
const PORT = 8080;
const PAGE = `http://127.0.0.1:${PORT}/`;
const DAEMON_START_LIMIT_MS = 600_000;

function fail(message: string): never {
  console.error(`gantry: ${message}`);
  process.exit(1);
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

interface Answer {
  readonly status: number;
  readonly body: string;
}

function request(options: { socketPath?: string; url: string }): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const req = get(options.url, { socketPath: options.socketPath, timeout: 60_000, agent: false }, (res) => {
      let body = '';
      res.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
      res.on('end', () => resolve({ status: res.statusCode ?? 0, body }));
    });
    req.on('timeout', () => req.destroy(new Error('no answer within a minute')));
    req.on('error', reject);
  });
}

async function daemonAnswers(): Promise<boolean> {
  try {
    return (await request({ socketPath: API_SOCKET, url: 'http://localhost/healthz' })).status === 200;
  } catch {
    return false;
  }
}

async function ensureDaemon(): Promise<void> {
  if (await daemonAnswers()) return;
  mkdirSync(dirname(DAEMON_LOG), { recursive: true, mode: 0o755 });
  const began = performance.now();
  const log = openSync(DAEMON_LOG, 'a', 0o640);
  const daemon = spawn(join(root, 'bin/gantryd'), [], { detached: true, stdio: ['ignore', log, log], cwd: '/' });
  closeSync(log);
  let ended: number | null | undefined;
  daemon.on('exit', (code) => (ended = code));
  daemon.unref();
  while (!(await daemonAnswers())) {
    if (ended !== undefined) {
      const words = readFileSync(DAEMON_LOG, 'utf8').trimEnd().split('\n').slice(-5).join('\n');
      fail(`gantryd ended with code ${String(ended)}; its last words (${DAEMON_LOG}):\n${words}`);
    }
    if (performance.now() - began > DAEMON_START_LIMIT_MS)
      fail(`gantryd does not answer on ${API_SOCKET}; see ${DAEMON_LOG}`);
    await sleep(50);
  }
  console.log(
    `gantry: gantryd started in ${((performance.now() - began) / 1000).toFixed(1)} s, its log is ${DAEMON_LOG}`,
  );
}

/** Runs a command of the CLI as a user would; its output goes to the terminal unless it is asked for. */
function cli(args: readonly string[], capture = false): string {
  const result = spawnSync(gantry, args, {
    stdio: ['ignore', capture ? 'pipe' : 'inherit', 'inherit'],
    encoding: 'utf8',
  });
  if (result.status !== 0) fail(`'gantry ${args.join(' ')}' failed (exit code ${String(result.status)})`);
  return capture ? result.stdout : '';
}

async function ensureImage(): Promise<void> {
  if (cli(['image', 'list', '-o', 'json'], true).includes(`"${IMAGE}"`)) return;
  const directory = mkdtempSync(join(tmpdir(), 'gantry-busybox-'));
  try {
    await makeBusyboxRootfs(directory);
    cli(['image', 'import', '--rootfs', directory, '--entrypoint', '/bin/sh', IMAGE]);
  } finally {
    await removeDirectory(directory);
  }
}

/** The temporary root filesystem is a plain copy with nothing mounted in it; it still goes the safe way. */
async function removeDirectory(directory: string): Promise<void> {
  const { SafeRemove } = await import('../src/linux/safe-remove.ts');
  const op = { signal: new AbortController().signal, log: silentLog };
  await new SafeRemove({ clock: systemClock }).remove(op, { root: dirname(directory), path: directory });
}

/** A published port has no listener: whatever listens on it would keep the pod from starting. A pod that is there has it already. */
async function checkPort(): Promise<void> {
  if ((await request({ socketPath: API_SOCKET, url: EXAMPLE_POD })).status !== 404) return;
  const mapping = { protocol: 'tcp', containerPort: PORT, hostPort: PORT } as const;
  if (!(await hostListeners()).some((listener) => collides(mapping, listener))) return;
  fail(`port ${PORT} of this machine, which the example serves its page on, is taken: end what listens on it first`);
}

async function showPage(): Promise<void> {
  const began = performance.now();
  let lastError = '';
  while (performance.now() - began < 120_000) {
    try {
      const { status, body } = await request({ url: PAGE });
      if (status === 200) {
        console.log(`\n$ curl ${PAGE}\n${body.trimEnd()}`);
        return;
      }
      lastError = `HTTP ${status}`;
    } catch (error) {
      lastError = error instanceof Error ? error.message : String(error);
    }
    await sleep(200);
  }
  fail(`the example's page ${PAGE} cannot be fetched: ${lastError}`);
}

await ensureDaemon();
await checkPort();
await ensureImage();
cli(['apply', '-f', EXAMPLE, '--wait', '--timeout', '600s']);
await showPage();
console.log('\n$ gantry get pods -o wide');
cli(['get', 'pods', '-o', 'wide']);
console.log(`
Next, try:
  bin/gantry logs hello -c writer -f        what the writer says
  bin/gantry exec hello -c writer -- ps     a command inside
  bin/gantry explain pod hello              what happened to the pod so far, and why
  bin/gantry delete -f examples/hello.yaml  end it, and see that nothing is left
  npm stop                                  end everything, then gantryd`);
