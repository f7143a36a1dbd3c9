import { writeSync } from 'node:fs';
import { hostname } from 'node:os';
import { Command, CommanderError } from 'commander';
import { systemClock } from '../lib/clock.ts';
import { messageOf } from '../lib/errors.ts';
import { keepAlive } from '../lib/keep-alive.ts';
import { createLog } from '../lib/json-log.ts';
import { PACKAGE_VERSION } from '../lib/package-version.ts';
import {
  DEFAULT_CONFIG_FILE,
  dumpConfig,
  flagOf,
  readConfigFile,
  resolveConfig,
  SETTINGS,
  type PartialConfig,
} from './config.ts';
import { startDaemon } from './daemon.ts';
import { withRealFolders, withRealRoot } from './real-paths.ts';

interface Invocation {
  readonly settings: PartialConfig;
  readonly configFile: string | undefined;
  readonly dumpConfig: boolean;
}

function parseArguments(version: string): Invocation {
  const program = new Command('gantryd')
    .description('The Gantry daemon: CRI runtime, pod agent and embedded Kubernetes API in one process.')
    .version(version)
    .option('--config <file>', `config file with the same settings (default ${DEFAULT_CONFIG_FILE}, if it is there)`)
    .option('--dump-config', 'print the effective configuration and end')
    .allowExcessArguments(false)
    .exitOverride();
  for (const { key, placeholder, help } of SETTINGS) {
    program.option(placeholder === undefined ? flagOf(key) : `${flagOf(key)} <${placeholder}>`, help);
  }
  program.parse();
  const {
    config,
    dumpConfig: dump,
    ...settings
  } = program.opts<PartialConfig & { config?: string; dumpConfig?: boolean }>();
  return { settings, configFile: config, dumpConfig: dump === true };
}

async function run(): Promise<void> {
  const { settings, configFile, dumpConfig: dump } = parseArguments(PACKAGE_VERSION);
  const fromFile = await readConfigFile(configFile ?? DEFAULT_CONFIG_FILE, configFile !== undefined);
  const given = await withRealRoot({ ...fromFile, ...settings });
  const config = await withRealFolders(resolveConfig(given, hostname()));
  if (dump) {
    process.stdout.write(dumpConfig(config));
    return;
  }
  if (process.getuid?.() !== 0) throw new Error('root is needed to run containers: start gantryd as root');
  // What is made here is root's alone unless its mode says otherwise.
  process.umask(0o022);
  const log = createLog(config.logLevel);
  // Not even a wait at the start keeps a process alive by itself.
  keepAlive();
  const daemon = await startDaemon(config, systemClock, log, PACKAGE_VERSION);
  let ending = false;
  const end = (signal: string): void => {
    if (ending) return;
    ending = true;
    log.info({ signal }, 'gantryd is stopping; containers run on');
    void daemon.close().then(() => process.exit(0));
  };
  process.on('SIGTERM', () => end('SIGTERM'));
  process.on('SIGINT', () => end('SIGINT'));
  // A terminal that goes away is no reason to stop.
  process.on('SIGHUP', () => undefined);
  // Ending in order would wait for threads that wait in the kernel: by the clock of whoever watches us we would never end.
  process.on('uncaughtException', (error) => {
    try {
      writeSync(process.stderr.fd, `gantryd: ${error.stack ?? messageOf(error)}\n`);
    } finally {
      process.kill(process.pid, 'SIGKILL');
    }
  });
  // Without a handler one forgotten promise would take the daemon down; it is a defect all the same, and says so.
  process.on('unhandledRejection', (reason) => {
    log.error(
      { error: messageOf(reason), stack: reason instanceof Error ? reason.stack : undefined },
      'unhandled rejection',
    );
  });
}

run().catch((error: unknown) => {
  if (error instanceof CommanderError) process.exit(error.exitCode);
  process.stderr.write(`gantryd: ${messageOf(error)}\n`);
  process.exit(1);
});
