import { readFile } from 'node:fs/promises';
import { writeFileAtomic } from '../../lib/atomic-file.ts';

/** The end of a pod that has begun, as the next agent process needs it. */
export interface TerminationRecord {
  readonly bootId: string;
  /** When all has to be over, on CLOCK_BOOTTIME of that boot. */
  readonly deadlineBoottimeMs: number;
  readonly why: string;
  /** Containers whose preStop hook has been carried out: not again. One that was only begun is begun again. */
  readonly hooksDone: readonly string[];
  readonly sinceWallMs: number;
  /** The same moment on the clock of the deadline, which nobody can set. */
  readonly sinceBoottimeMs: number;
}

/** Undefined when there is none, when it is torn, or when it is of another boot: nothing of that one is alive. */
export async function readTermination(path: string, bootId: string): Promise<TerminationRecord | undefined> {
  try {
    const record = JSON.parse(await readFile(path, 'utf8')) as TerminationRecord;
    return record.bootId === bootId && Number.isFinite(record.deadlineBoottimeMs) ? record : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Best effort: a full disk must not keep a pod from ending (FAILURES.md row 13). The pod's directory is not made for it: a late
 * write would bring it back after it was removed.
 */
export async function writeTermination(path: string, record: TerminationRecord): Promise<boolean> {
  try {
    // Not synced: it means nothing after a boot, and a busy disk must not put off the stop signal.
    await writeFileAtomic(path, JSON.stringify(record), { sync: false });
    return true;
  } catch {
    return false;
  }
}
