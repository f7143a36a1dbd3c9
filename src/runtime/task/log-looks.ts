import { withLimit, type Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { errnoOf, isKind } from '../../lib/errors.ts';
import { Slots } from '../../lib/slots.ts';
import type { FileEnd } from '../../linux/hang-safe.ts';
import type { HostFiles } from '../../linux/host-files.ts';

/** A disk that hangs keeps so many threads at the most. */
const LOOKS_AT_ONCE = 2;
const LOOK_TIMEOUT_MS = 60_000;
/** File systems keep a little back for themselves: with less than this free, a write has failed or will. */
const NO_ROOM_BYTES = 64 * 1_024;
const NEWLINE = 0x0a;

/**
 * Looks at the logs of containers that have ended. conmon goes on reading when a write to a log fails, throws away what it could not write, and
 * tells nobody. What remains of that are signs: no room, or a line that was cut.
 */
export class LogLooks {
  readonly #clock: Clock;
  readonly #files: Pick<HostFiles, 'fileEnd'>;
  readonly #slots = new Slots(LOOKS_AT_ONCE, { what: 'looking at a log' });

  constructor(clock: Clock, files: Pick<HostFiles, 'fileEnd'>) {
    this.#clock = clock;
    this.#files = files;
  }

  /** Why output may be missing from it; undefined: no sign of that, or nobody has it any more. Throws when nobody answers. */
  async lossIn(op: Op, logPath: string): Promise<string | undefined> {
    return await this.#slots.run(op, async () => {
      try {
        const what = `looking at the log ${logPath}`;
        return logLossOf(
          await withLimit(op, this.#clock, LOOK_TIMEOUT_MS, what, (limited) =>
            this.#files.fileEnd(limited, logPath, 1),
          ),
        );
      } catch (error) {
        if (isKind(error, 'NotFound')) return undefined;
        if (errnoOf(error) === 'EIO') return 'its file system fails (EIO)';
        throw error;
      }
    });
  }
}

/** Pure. */
export function logLossOf({ isFile, lastBytes, freeBytes }: FileEnd): string | undefined {
  if (!isFile) return undefined;
  if (freeBytes < NO_ROOM_BYTES) return 'its file system is full';
  const last = lastBytes.at(-1);
  return last === undefined || last === NEWLINE ? undefined : 'its last line is cut';
}
