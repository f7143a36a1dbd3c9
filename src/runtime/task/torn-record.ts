import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf } from '../../lib/errors.ts';

/** What an OCI runtime has written down of a container, in the folder that it has for it: crun and runc, in that order. */
const RECORDS = ['status', 'state.json'];

/** Looked at when the OCI runtime could not delete a container. */
export interface FailedDeletion {
  /** Text of each record that is there. */
  readonly records: readonly string[];
  /** Its first process; false as well where there never was one that is known: then it would be in the cgroup. */
  readonly initAlive: boolean;
  /** How many processes its cgroup holds; undefined: which one that is is not known. */
  readonly processes: number | undefined;
}

/**
 * Whether the OCI runtime fails because its record cannot be read, and there is nothing left that it could do: its folder is all that is
 * in the way. Pure. Never while a process may live, and never when the record says something.
 */
export function isBlockedByTornRecord({ records, initAlive, processes }: FailedDeletion): boolean {
  if (initAlive || processes !== 0) return false;
  return records.length > 0 && records.every((text) => !isObject(text));
}

function isObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

/** Text of each record in the OCI runtime's folder of one container. One that the disk does not give is no torn one: throws. */
export async function recordsIn(stateDir: string): Promise<string[]> {
  const texts = await Promise.all(
    RECORDS.map(async (name) => {
      try {
        return await readFile(join(stateDir, name), 'utf8');
      } catch (error) {
        if (errnoOf(error) === 'ENOENT') return undefined;
        throw error;
      }
    }),
  );
  return texts.filter((text) => text !== undefined);
}
