import { pino } from 'pino';

/** Structured log lines: a constant message, data in fields (`component podUid containerId durationMs errKind` …). */
export interface Log {
  debug(fields: Record<string, unknown>, message: string): void;
  info(fields: Record<string, unknown>, message: string): void;
  warn(fields: Record<string, unknown>, message: string): void;
  error(fields: Record<string, unknown>, message: string): void;
  child(fields: Record<string, unknown>): Log;
}

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Lines that cannot be written wait for the next one, as many as fit in here; then they are lost, and the process lives. */
const MAX_WAITING_BYTES = 1 << 20;

/** JSON lines on stderr (fd 2), written asynchronously so that a slow disk under the log never stalls the main thread. */
export function createLog(level: LogLevel): Log {
  const destination = pino.destination({ dest: 2, sync: false, maxLength: MAX_WAITING_BYTES });
  // A full disk under the log: without a listener this would end the process.
  destination.on('error', () => undefined);
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    destination,
  );
}

/** Says nothing. For tests and for callers that have no log. */
export const silentLog: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silentLog,
};
