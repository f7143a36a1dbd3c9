import { pino } from 'pino';
import type { Log, LogLevel } from './log.ts';

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
