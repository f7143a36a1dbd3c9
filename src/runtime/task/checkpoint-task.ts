import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Op } from '../../lib/abort.ts';
import { failedPrecondition, messageOf, notImplemented } from '../../lib/errors.ts';
import { findProgram } from '../../lib/find-program.ts';
import { OciRuntime, type CheckpointFolders } from '../oci/oci-runtime.ts';
import type { Task } from './task.ts';

/** Of a log that says much, this is what a person needs. */
const MOST_ERRORS = 3;
/** crun loads it when it is asked for a checkpoint; the program alone, which runc calls, does not bring it. */
const LIBRARY_MISSING = /could not load .*libcriu/;

/**
 * Has CRIU write down the processes of a running container, which goes on running. It is never broken off, whatever happens to the op: CRIU works
 * inside the container's processes, and one that is killed leaves them damaged.
 * Throws NotImplemented where there is no CRIU, or not the library of it that crun works with, FailedPrecondition with CRIU's own words when it cannot.
 */
export async function checkpointTask(
  op: Op,
  task: Task,
  folders: CheckpointFolders,
  find: (program: string) => Promise<string | undefined> = findProgram,
): Promise<void> {
  if ((await find('criu')) === undefined) {
    throw notImplemented('a checkpoint is made by CRIU, and this host has no program "criu"');
  }
  const unbroken: Op = { signal: new AbortController().signal, log: op.log };
  const runtime = new OciRuntime(task.runtime);
  // CRIU would take it for its own work, and let it run afterwards.
  if ((await runtime.state(op, task.id))?.status === 'paused') {
    throw failedPrecondition(`container ${task.id} is paused: it can be checkpointed when it runs`);
  }
  try {
    await runtime.checkpoint(unbroken, task.id, folders);
  } catch (error) {
    if (LIBRARY_MISSING.test(messageOf(error))) {
      throw notImplemented(
        `a checkpoint is made by CRIU, and crun has CRIU by a library that this host has not (Debian's package libcriu2): ${messageOf(error)}`,
        { cause: error },
      );
    }
    const words = errorsIn(await readFile(join(folders.workDir, 'dump.log'), 'utf8').catch(() => ''));
    throw failedPrecondition(
      `container ${task.id} cannot be checkpointed: ${words === '' ? messageOf(error) : `CRIU says: ${words}`}`,
      { cause: error },
    );
  }
}

/** The first complaints of a log of CRIU's, whose lines begin with a time: `(00.123456) Error (criu/net.c:10): what`. Pure. */
export function errorsIn(log: string): string {
  const errors = [...log.matchAll(/^(?:\([\d.]+\) *)?Error \([^)]*\): (.*)$/gm)].map(([, words = '']) => words.trim());
  return errors.slice(0, MOST_ERRORS).join('; ');
}
