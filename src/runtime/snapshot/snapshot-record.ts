import { readFile } from 'node:fs/promises';

/** What stands in `snapshot.json` beside a container's upper directory, so that a restarted daemon knows its layers. */
export interface SnapshotRecord {
  readonly version: 1;
  /** Bottom first. */
  readonly diffIds: readonly string[];
  /** Of the boot that it was made in. */
  readonly bootId: string;
}

export const RECORD_NAME = 'snapshot.json';

/** Undefined when there is none, or none that can be read (a power cut before it reached the disk). */
export async function readRecord(directory: string): Promise<SnapshotRecord | undefined> {
  try {
    const record = JSON.parse(await readFile(`${directory}/${RECORD_NAME}`, 'utf8')) as Partial<SnapshotRecord> | null;
    const { diffIds, bootId } = record ?? {};
    if (record?.version !== 1 || typeof bootId !== 'string') return undefined;
    if (!Array.isArray(diffIds) || !diffIds.every((diffId) => typeof diffId === 'string')) return undefined;
    return { version: 1, diffIds, bootId };
  } catch {
    return undefined;
  }
}
