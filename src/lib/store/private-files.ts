import { chmodSync, closeSync, openSync, readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

const PRIVATE = 0o600;

/**
 * Makes a database file that only its owner may read before SQLite would make one by the umask, and takes from others what an older version
 * left open to them: the file itself, what lies beside it while it is used, and what was set aside. SQLite gives the files beside it the
 * mode of the file. Secrets are in there, and the root folder can be passed through by everybody, as containers' users must. For the store
 * thread: it blocks.
 */
export function keepPrivate(path: string): void {
  try {
    closeSync(openSync(path, 'a', PRIVATE));
  } catch {
    // No room, or no folder: SQLite says it in the words that its caller knows.
    return;
  }
  const name = basename(path);
  for (const found of readdirSync(dirname(path))) {
    if (belongsTo(found, name)) chmodSync(join(dirname(path), found), PRIVATE);
  }
}

function belongsTo(found: string, name: string): boolean {
  return found === name || found === `${name}-wal` || found === `${name}-shm` || found.startsWith(`${name}.damaged-`);
}
