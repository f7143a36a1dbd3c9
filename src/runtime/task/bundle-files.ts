import { join } from 'node:path';
import { RuntimePaths } from '../store/paths.ts';

/** What lies in a container's bundle folder beside its root file system. All of it is made by conmon or for it. */
export interface BundleFiles {
  readonly config: string;
  readonly pidFile: string;
  readonly conmonPidFile: string;
  readonly runtimeLog: string;
  readonly ctl: string;
  readonly winsz: string;
}

export function bundleFiles(bundleDir: string): BundleFiles {
  return {
    config: join(bundleDir, 'config.json'),
    pidFile: join(bundleDir, 'pidfile'),
    conmonPidFile: join(bundleDir, 'conmon.pid'),
    runtimeLog: join(bundleDir, 'runtime.log'),
    ctl: join(bundleDir, 'ctl'),
    winsz: join(bundleDir, 'winsz'),
  };
}

/**
 * Every name that conmon (2.1.6 to 2.1.12), the OCI runtime or this room may leave in a bundle folder. `oom` is written
 * into conmon's working directory, which is the bundle folder for that reason. `exit` is of newer conmons.
 */
export const BUNDLE_LEFTOVERS: readonly string[] = [
  'config.json',
  'pidfile',
  // Half-written by a runtime that was killed.
  '.pidfile',
  'conmon.pid',
  'runtime.log',
  'ctl',
  'winsz',
  'attach',
  'oom',
  'exit',
];

/** sockaddr_un holds 107 bytes of path. */
const LONGEST_SOCKET_PATH = 107;
const SOCKET_NAME_LENGTH = 32;

/** conmon makes a link of this name in its socket folder; ids are random, so a half of one is as good as the whole. */
export function socketName(id: string): string {
  return id.slice(0, SOCKET_NAME_LENGTH);
}

export function attachSocketPath(socketsDir: string, id: string): string {
  return join(socketsDir, socketName(id), 'attach');
}

/** How many bytes the path of a state folder may have, so that every attach socket below it fits into an address. */
export function longestStateDir(): number {
  const below = attachSocketPath(new RuntimePaths('/', '/').sockets, 'x'.repeat(SOCKET_NAME_LENGTH));
  return LONGEST_SOCKET_PATH - Buffer.byteLength(below);
}
