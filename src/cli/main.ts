import { CommanderError } from 'commander';
import { systemClock } from '../lib/clock.ts';
import { canceled } from '../lib/errors.ts';
import { keepAlive } from '../lib/keep-alive.ts';
import type { CriConnection } from '../cri/client.ts';
import { silentLog } from '../lib/log.ts';
import { connectApi } from '../kube/http/connect.ts';
import type { ApiConnection } from '../kube/gantry-extensions.ts';
import type { CliContext, Output } from './context.ts';
import { errorText } from './error-text.ts';
import { PACKAGE_VERSION } from '../lib/package-version.ts';
import { createProgram } from './program.ts';
import { processTerminal } from './terminal/process-terminal.ts';
import type { ProgramHost } from './words/shared-options.ts';

const DEFAULT_API = 'unix:///run/gantry/api.sock';
const DEFAULT_CRI = 'unix:///run/gantry/gantry.sock';

function outputTo(stream: NodeJS.WriteStream): Output {
  return {
    write: (text) =>
      new Promise((resolve, reject) => {
        stream.write(text, (error) => {
          if (error) reject(error);
          else resolve();
        });
      }),
    columns: stream.isTTY ? stream.columns : undefined,
  };
}

function flushed(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    stream.write('', () => resolve());
  });
}

async function readStdin(): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

// `gantry logs | head`: a reader that has seen enough is no error.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0);
  });
}

const interrupted = new AbortController();
let connection: Promise<ApiConnection> | undefined;
let criConnection: Promise<CriConnection> | undefined;

/** What a slow reader has not taken yet is lost with the process; after Ctrl-C nobody waits for it. */
async function end(code: number): Promise<never> {
  if (!interrupted.signal.aborted) await Promise.all([process.stdout, process.stderr].map(flushed));
  await connection?.then((open) => open.close()).catch(() => undefined);
  await criConnection?.then((open) => open.close()).catch(() => undefined);
  process.exit(code);
}

async function openCri(endpoint: string): Promise<CriConnection> {
  // gRPC is not for every command to load.
  const { connectCri } = await import('../cri/client.ts');
  return connectCri(endpoint);
}

function namedApi(): string | undefined {
  return program.opts<{ api?: string }>().api ?? process.env['GANTRY_API'];
}

const host: ProgramHost = {
  context: (): CliContext => ({
    op: { signal: interrupted.signal, log: silentLog },
    clock: systemClock,
    out: outputTo(process.stdout),
    err: outputTo(process.stderr),
    readStdin,
    terminal: processTerminal,
    cwd: process.cwd(),
    api: () => (connection ??= connectApi(namedApi() ?? DEFAULT_API, { ownVersion: PACKAGE_VERSION })),
    apiWasNamed: namedApi() !== undefined,
    cri: (endpoint = DEFAULT_CRI) => (criConnection ??= openCri(endpoint)),
  }),
  finished: (code) => {
    process.exitCode = code;
  },
};
const program = createProgram(host, process.argv[2]);

const EXIT_INTERRUPTED = 130;
process.on('SIGINT', () => {
  interrupted.abort(canceled('interrupted'));
  // A second Ctrl-C does not wait for anything.
  process.once('SIGINT', () => process.exit(EXIT_INTERRUPTED));
});

async function run(): Promise<void> {
  try {
    await program.parseAsync();
    await end(interrupted.signal.aborted ? EXIT_INTERRUPTED : Number(process.exitCode ?? 0));
  } catch (error) {
    if (error instanceof CommanderError) await end(error.exitCode);
    if (interrupted.signal.aborted) await end(EXIT_INTERRUPTED);
    process.stderr.write(`${errorText(error)}\n`);
    await end(1);
  }
}

keepAlive();
void run();
