import { open, type FileHandle } from 'node:fs/promises';
import { errnoOf } from '../lib/errors.ts';
import { fromNodeError } from './errno.ts';

/** A process that forks while we look has children with the old value: then there is another look. */
const MAX_LOOKS = 10;
const OPEN_AT_ONCE = 64;
const GONE = ['ENOENT', 'ESRCH'];
const FORBIDDEN = ['EACCES', 'EPERM'];

/**
 * Gives `value` as oom_score_adj to each of these processes that has `before`: one that has chosen another for itself keeps it. Where this
 * host does not let us, it stays, as when a container is made. `pids` is asked again and again: who is in the list now.
 */
export async function changeOomScores(pids: () => Promise<number[]>, before: string, value: string): Promise<void> {
  for (let look = 0; look < MAX_LOOKS; look++) {
    const all = await pids();
    let changed = false;
    for (let i = 0; i < all.length; i += OPEN_AT_ONCE) {
      if (await changeSome(all.slice(i, i + OPEN_AT_ONCE), pids, before, value)) changed = true;
    }
    if (!changed) return;
  }
}

/** Whether there was any. */
async function changeSome(
  some: readonly number[],
  pids: () => Promise<number[]>,
  before: string,
  value: string,
): Promise<boolean> {
  const opened = new Map<number, FileHandle>();
  try {
    for (const pid of some) {
      const handle = await unlessGone(pid, () => open(`/proc/${String(pid)}/oom_score_adj`, 'r+'));
      if (handle !== undefined) opened.set(pid, handle);
    }
    // A pid may have become a stranger's before it was opened. What is open stays with its process, so a second look at the list tells.
    const still = new Set(await pids());
    let changed = false;
    for (const [pid, handle] of opened) {
      if (!still.has(pid)) continue;
      const done = await unlessGone(pid, async () => {
        const { buffer, bytesRead } = await handle.read(Buffer.alloc(16), 0, 16, 0);
        if (buffer.toString('utf8', 0, bytesRead).trim() !== before) return false;
        await handle.write(value, 0);
        return true;
      });
      if (done === true) changed = true;
    }
    return changed;
  } finally {
    await Promise.all([...opened.values()].map((handle) => handle.close()));
  }
}

async function unlessGone<T>(pid: number, act: () => Promise<T>): Promise<T | undefined> {
  try {
    return await act();
  } catch (error) {
    if ([...GONE, ...FORBIDDEN].includes(errnoOf(error) ?? '')) return undefined;
    throw fromNodeError(error, `oom_score_adj of process ${String(pid)}`);
  }
}
