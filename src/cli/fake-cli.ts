import { CommanderError } from 'commander';
import { examplePod, openFakeApi, type FakeApi } from '../kube/api/fake-api.ts';
import type { ApiConnection } from '../kube/gantry-extensions.ts';
import { notImplemented } from '../lib/errors.ts';
import type { Output } from './context.ts';
import { errorText } from './error-text.ts';
import { createProgram } from './program.ts';
import { FakeStreams } from './streams/fake-session.ts';
import { FakeTerminal } from './terminal/fake-terminal.ts';
import type { Terminal } from './terminal/terminal.ts';

interface Ending {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export interface FakeCli {
  readonly api: FakeApi;
  /** Runs a command line as `gantry` would; what it reads from stdin is `input`. */
  run(words: readonly string[], input?: string): Promise<Ending>;
  /** As {@link run}, and calls back with what stands on stdout so far whenever that grows; aborting ends it as Ctrl-C does. */
  follow(words: readonly string[], grown: (out: string, interrupt: () => void) => void): Promise<Ending>;
  /** As {@link run}, and can be ended as Ctrl-C does. */
  interruptible(words: readonly string[]): { readonly ended: Promise<Ending>; interrupt(): void };
  /** A pod that is there, with these labels. */
  pod(name: string, labels?: Record<string, string>): Promise<void>;
}

/** The whole command line on an API in memory, with buffers for a terminal. */
export async function openFakeCli(
  gantry: Partial<ApiConnection['gantry']> = {},
  connection: Partial<Omit<ApiConnection, 'gantry'>> = {},
  cwd = '/',
  terminal: () => Terminal = () => new FakeTerminal(),
): Promise<FakeCli> {
  const api = await openFakeApi();
  const follow: FakeCli['follow'] = (words, grown) => runWords(words, '', grown);

  async function runWords(
    words: readonly string[],
    input: string,
    grown: Parameters<FakeCli['follow']>[1] = () => undefined,
    interrupted = new AbortController(),
  ): Promise<Ending> {
    const texts = { out: '', err: '' };
    const output = (name: 'out' | 'err'): Output => ({
      columns: undefined,
      write: async (text) => {
        texts[name] += typeof text === 'string' ? text : Buffer.from(text).toString('utf8');
        if (name === 'out') grown(texts.out, () => interrupted.abort());
        await Promise.resolve();
      },
    });
    let code = 0;
    const program = createProgram({
      context: () => ({
        op: { ...api.op, signal: interrupted.signal },
        clock: api.clock,
        out: output('out'),
        err: output('err'),
        readStdin: () => Promise.resolve(input),
        terminal,
        cwd,
        api: () =>
          Promise.resolve({
            kube: api.kube,
            gantry: gantry as ApiConnection['gantry'],
            streams: new FakeStreams(),
            serverVersion: () => Promise.reject(notImplemented('no version')),
            close: () => Promise.resolve(),
            ...connection,
          }),
        apiWasNamed: true,
        cri: () => Promise.reject(notImplemented('no runtime')),
      }),
      finished: (ended) => (code = ended),
      print: { out: (text) => (texts.out += text), err: (text) => (texts.err += text) },
    });
    try {
      await program.parseAsync(words, { from: 'user' });
    } catch (error) {
      code = error instanceof CommanderError ? error.exitCode : 1;
      if (!(error instanceof CommanderError)) texts.err += `${errorText(error)}\n`;
    }
    return { code, ...texts };
  }

  return {
    api,
    run: (words, input = '') => runWords(words, input),
    follow,
    interruptible: (words) => {
      const interrupted = new AbortController();
      return { ended: runWords(words, '', undefined, interrupted), interrupt: () => interrupted.abort() };
    },
    pod: async (name, labels) => {
      await api.kube.create(api.op, 'pods', examplePod(name, {}, labels));
    },
  };
}
