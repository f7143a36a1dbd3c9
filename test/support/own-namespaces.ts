import { execFileSync } from 'node:child_process';
import { errnoError } from '../../src/linux/errno.ts';
import { libc } from '../../src/linux/libc.ts';

const [CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWNET] = [0x20000, 0x4000000, 0x8000000, 0x40000000];
const [MS_REC, MS_PRIVATE] = [0x4000, 0x40000];

/**
 * Takes this process's main thread, and with it every process that it starts from now on, out of the machine's mounts, network, host name and
 * shared memory: for a daemon that is asked for anything at all. The files are the machine's, so only its mounts are out of reach.
 */
export function enterOwnNamespaces(): void {
  if (Number(libc.unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET)) < 0) {
    throw errnoError(libc.errno(), 'unshare namespaces for a test');
  }
  if (Number(libc.mount(null, '/', null, MS_REC | MS_PRIVATE, null)) < 0) {
    throw errnoError(libc.errno(), 'make the mounts of a test private');
  }
  // Started by this thread, which others' helpers are not.
  execFileSync('ip', ['link', 'set', 'lo', 'up']);
}
