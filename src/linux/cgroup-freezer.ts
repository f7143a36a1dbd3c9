import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../lib/clock.ts';
import { errnoOf } from '../lib/errors.ts';
import { deepestFirst, readCgroupFile } from './cgroup-files.ts';
import type { CgroupPlaces } from './cgroup-places.ts';
import { fromNodeError } from './errno.ts';

const FREEZE_WAIT_MS = 200;
const FREEZE_PAUSE_MS = 10;

/** Stops the processes of a cgroup from running, and lets them run again: by cgroup.freeze on v2, by v1's freezer elsewhere. */
export class CgroupFreezer {
  readonly #clock: Clock;
  readonly #places: CgroupPlaces;

  constructor(clock: Clock, places: CgroupPlaces) {
    this.#clock = clock;
    this.#places = places;
  }

  /** Asks the kernel to stop every process in it from running, and waits a moment for it to be so. */
  async freeze(path: string): Promise<void> {
    await this.#setFrozen(path, true);
    const until = this.#clock.monotonicMs() + FREEZE_WAIT_MS;
    while (!(await this.isFrozen(path)) && this.#clock.monotonicMs() < until) await this.#clock.sleep(FREEZE_PAUSE_MS);
  }

  /** Lets it run again, and every cgroup below that was frozen by itself (FAILURES.md row 23). */
  async thaw(path: string): Promise<void> {
    await this.#setFrozen(path, false);
  }

  async isFrozen(path: string): Promise<boolean> {
    const freezer = this.#freezer(path);
    if (freezer === undefined) return false;
    const text = await readCgroupFile(
      freezer.v2 ? join(freezer.directory, 'cgroup.events') : join(freezer.directory, 'freezer.state'),
    );
    return freezer.v2 ? /^frozen 1$/m.test(text ?? '') : text?.trim() === 'FROZEN';
  }

  async #setFrozen(path: string, frozen: boolean): Promise<void> {
    const freezer = this.#freezer(path);
    if (freezer === undefined) return;
    const directories = frozen ? [freezer.directory] : (await deepestFirst(freezer.directory)).reverse();
    for (const directory of directories) {
      const [file, value] = freezer.v2
        ? ['cgroup.freeze', frozen ? '1' : '0']
        : ['freezer.state', frozen ? 'FROZEN' : 'THAWED'];
      try {
        await writeFile(join(directory, file), value);
      } catch (error) {
        if (errnoOf(error) !== 'ENOENT') throw fromNodeError(error, `${frozen ? 'freeze' : 'thaw'} cgroup ${path}`);
      }
    }
  }

  #freezer(path: string): { directory: string; v2: boolean } | undefined {
    if (this.#places.host.mode === 'v2') {
      const [place] = this.#places.all(path);
      return place === undefined ? undefined : { directory: place.directory, v2: true };
    }
    const place = this.#places.of(path, 'freezer');
    return place === undefined ? undefined : { directory: place.directory, v2: false };
  }
}
