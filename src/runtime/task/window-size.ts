import { constants, open } from 'node:fs/promises';
import type { Clock } from '../../lib/clock.ts';
import { errnoOf } from '../../lib/errors.ts';
import { unreadBytes } from '../../linux/pipe.ts';
import type { TerminalSize } from '../streaming/streams.ts';

const LOOK_MS = 5;
const LARGEST = 0xffff;

/**
 * Sets the size of a container's terminal through its monitor's pipe for that, again with each new size, until there are no more or the
 * monitor is gone. conmon (2.1.6 to 2.1.12) takes the first of several lines that it reads at once for each of them: so there is never
 * more than one in the pipe, and a size that is overtaken meanwhile is left out.
 */
export async function followSizes(
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
  pipePath: string,
  sizes: AsyncIterable<TerminalSize>,
): Promise<void> {
  let newest: TerminalSize | undefined;
  let setting: Promise<void> | undefined;
  const setAll = async (): Promise<void> => {
    // Without a reader opening fails instead of waiting for one.
    await using pipe = await open(pipePath, constants.O_WRONLY | constants.O_NONBLOCK);
    while (newest !== undefined) {
      if (unreadBytes(pipe.fd) > 0) {
        await clock.sleep(LOOK_MS, signal);
        continue;
      }
      const line = lineOf(newest);
      newest = undefined;
      await pipe.write(line);
    }
  };
  const set = async (): Promise<void> => {
    try {
      // One may have come while the pipe was being closed.
      while (newest !== undefined) await setAll();
    } catch (error) {
      // The monitor is gone, and the session with it.
      if (errnoOf(error) === undefined && !signal.aborted) throw error;
    } finally {
      setting = undefined;
    }
  };
  for await (const size of sizes) {
    newest = size;
    setting ??= set();
  }
  await setting;
}

function lineOf({ width, height }: TerminalSize): string {
  const [rows, columns] = [height, width].map((value) => String(Math.min(Math.max(value, 0), LARGEST)));
  return `${rows ?? '0'} ${columns ?? '0'}\n`;
}
