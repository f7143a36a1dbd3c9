import { constants } from 'node:os';
import { isatty } from 'node:tty';
import type { Terminal } from './terminal.ts';

/** Signals that end a process. The terminal is in order again before they do. */
const ENDING: readonly NodeJS.Signals[] = ['SIGHUP', 'SIGQUIT', 'SIGTERM'];

/** The terminal, or the pipes, of this process. */
export function processTerminal(): Terminal {
  return {
    get stdin() {
      return process.stdin;
    },
    stdout: process.stdout,
    stderr: process.stderr,
    stdinIsTerminal: isatty(0),
    size: () => {
      const [width, height] = process.stdout.isTTY ? process.stdout.getWindowSize() : [];
      return width === undefined || height === undefined ? undefined : { width, height };
    },
    onResize: (listener) => {
      process.stdout.on('resize', listener);
      return {
        [Symbol.dispose]: () => {
          process.stdout.off('resize', listener);
        },
      };
    },
    rawMode,
  };
}

function rawMode(): Disposable {
  const restore = (): void => {
    process.stdin.setRawMode(false);
  };
  const ended = (signal: NodeJS.Signals): void => {
    process.exit(128 + constants.signals[signal]);
  };
  process.stdin.setRawMode(true);
  // Node goes on turning each line feed into a new line, and the container's terminal has done that already: a program that draws its own screen
  // moves the cursor with line feeds. What Node restores has this in it, too.
  // Loaded here: no other command has use for it.
  const { spawnSync } = process.getBuiltinModule('node:child_process');
  spawnSync('stty', ['-opost'], { stdio: ['inherit', 'ignore', 'ignore'] });
  process.on('exit', restore);
  for (const signal of ENDING) process.on(signal, ended);
  return {
    [Symbol.dispose]: () => {
      for (const signal of ENDING) process.off(signal, ended);
      process.off('exit', restore);
      restore();
    },
  };
}
