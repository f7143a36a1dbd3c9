import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { errnoOf, failedPrecondition, messageOf } from '../lib/errors.ts';
import { makeFolders } from '../lib/make-folders.ts';
import { unixSocketPath } from '../lib/unix-socket.ts';
import { flagOf, type ConfigKey, type GantryConfig } from './config.ts';

/**
 * Makes the folders that the configuration names, before anything else is done, so that one that cannot be made is said by its flag.
 *
 * @throws FailedPrecondition, in one line that says which setting it is and what to do
 */
export async function makeOwnFolders(config: GantryConfig): Promise<void> {
  await makeOwn('root', config.root, 0o711);
  await makeOwn('state', config.state, 0o711);
  await makeOwn('netnsDir', config.netnsDir, 0o755);
  await makeOwn('criListen', dirname(unixSocketPath(config.criListen)), 0o755);
  if (config.runtimeOnly) return;
  await makeOwn('apiListen', dirname(unixSocketPath(config.apiListen)), 0o755);
  await makeOwn('podsDir', config.podsDir, 0o750);
  await makeOwn('logRoot', config.logRoot, 0o755);
}

async function makeOwn(key: ConfigKey, path: string, mode: number): Promise<void> {
  try {
    await makeFolders(path, mode);
  } catch (error) {
    throw failedPrecondition(`${flagOf(key)}: ${await reasonOf(error, path)}: name another folder`, { cause: error });
  }
}

async function reasonOf(error: unknown, path: string): Promise<string> {
  switch (errnoOf(error)) {
    case 'EEXIST':
    case 'ENOTDIR':
      return `${await firstThatIsNoFolder(path)} is there and is no folder`;
    case 'ENOENT':
      return `the file system at ${path} takes no folders`;
    default:
      return `${path} cannot be made (${messageOf(error)})`;
  }
}

async function firstThatIsNoFolder(path: string): Promise<string> {
  let at = '';
  for (const name of path.split('/').filter((part) => part !== '')) {
    at += `/${name}`;
    const isFolder = await stat(at).then(
      (stats) => stats.isDirectory(),
      () => false,
    );
    if (!isFolder) return at;
  }
  return path;
}
