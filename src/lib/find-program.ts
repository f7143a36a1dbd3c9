import { access, constants } from 'node:fs/promises';
import { join } from 'node:path';

/** Where a system has its programs: all of them, which a service's own PATH does not. */
export const PROGRAM_FOLDERS = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'];

/** The program in the first folder that has one of this name that can be run. Undefined when none has. */
export async function findProgram(
  name: string,
  folders: readonly string[] = PROGRAM_FOLDERS,
): Promise<string | undefined> {
  for (const folder of folders) {
    const path = join(folder, name);
    try {
      await access(path, constants.X_OK);
      return path;
    } catch {
      // not there, or not to be run: the next folder may have it
    }
  }
  return undefined;
}
