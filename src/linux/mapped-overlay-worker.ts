import { closeSync, openSync } from 'node:fs';
import { parentPort } from 'node:worker_threads';
import { errnoError, fromNodeError } from './errno.ts';
import { CLONE, MOUNT_ATTR, MS } from './kernel-constants.ts';
import { libc } from './libc.ts';
import type { MappedOverlayRequest } from './mapped-overlay.ts';
import { realMountSyscalls } from './mount-syscalls.ts';
import { overlayError, overlaySettings } from './overlay-settings.ts';
import { answerRequest, type PeerRequest } from './peer-protocol.ts';

/**
 * The thread of MappedOverlays. Everything is synchronous, so that all of it happens on this one thread: between unshare and the way back
 * nothing else may run here. What a system call of ours has opened is closed by one: Node warns of descriptors that it has not opened itself.
 */

const syscalls = realMountSyscalls();
const home = openSync('/proc/thread-self/ns/mnt', 'r');

function check(result: number | bigint, what: string): void {
  if (result < 0) throw errnoError(libc.errno(), what);
}

/** Detached copies of the directories' mounts, with the user namespace's ids; they vanish with their descriptors. */
function mapped({ lowerDirs, userNamespace }: MappedOverlayRequest, copies: number[]): void {
  let userNamespaceFd: number;
  try {
    userNamespaceFd = openSync(userNamespace, 'r');
  } catch (error) {
    throw fromNodeError(error, `open user namespace ${userNamespace}`);
  }
  try {
    for (const folder of lowerDirs) {
      const copy = syscalls.openTreeSync(folder);
      copies.push(copy);
      syscalls.mountSetattrSync(copy, { set: MOUNT_ATTR.IDMAP, userNamespaceFd });
    }
  } finally {
    closeSync(userNamespaceFd);
  }
}

/** Each copy over its own directory, where the overlay is told to look for it. */
function attach(lowerDirs: readonly string[], copies: readonly number[]): void {
  check(libc.mount('none', '/', null, MS.REC | MS.PRIVATE, null), 'make the mounts of a new namespace private');
  for (const [i, copy] of copies.entries()) syscalls.moveMountSync(copy, lowerDirs[i] ?? '');
}

function overlay(request: MappedOverlayRequest): number {
  const context = syscalls.fsopen('overlay');
  let layer: string | undefined;
  try {
    for (const setting of overlaySettings(request)) {
      layer = setting.layer;
      syscalls.fsconfigSync(context, setting);
    }
    layer = undefined;
    syscalls.fsconfigSync(context, 'create');
    return syscalls.fsmountSync(context);
  } catch (error) {
    throw overlayError(error, request, syscalls.fsMessages(context), layer);
  } finally {
    libc.close(context);
  }
}

function make(request: MappedOverlayRequest): number {
  const copies: number[] = [];
  try {
    mapped(request, copies);
    check(libc.unshare(CLONE.NEWNS), 'make a mount namespace');
    try {
      attach(request.lowerDirs, copies);
      return overlay(request);
    } finally {
      if (libc.setns(home, CLONE.NEWNS) < 0) {
        // A thread that cannot come back must serve nobody else.
        process.exit(1);
      }
    }
  } finally {
    for (const copy of copies) libc.close(copy);
  }
}

parentPort?.on('message', (message: PeerRequest) => {
  void answerRequest(message, make, (reply) => parentPort?.postMessage(reply));
});
