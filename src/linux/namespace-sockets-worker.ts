import { closeSync, openSync } from 'node:fs';
import { parentPort } from 'node:worker_threads';
import { errnoError, fromNodeError } from './errno.ts';
import { CLONE } from './kernel-constants.ts';
import { libc } from './libc.ts';
import type { NamespaceSocketRequest } from './namespace-sockets.ts';
import { answerRequest, type PeerRequest } from './peer-protocol.ts';

/** The thread of NamespaceSockets. Synchronous, so that nothing else runs on it while it is away from home. */

const [AF_INET, AF_INET6] = [2, 10];
const SOCK_STREAM_NONBLOCK_CLOEXEC = 0o2004001;
const WAY_BACK = 'the way back from a network namespace failed';

const home = openSync('/proc/thread-self/ns/net', 'r');

function makeSocket({ netnsPath, family }: NamespaceSocketRequest): number {
  const namespace = open(netnsPath);
  try {
    if (libc.setns(namespace, CLONE.NEWNET) < 0) throw errnoError(libc.errno(), `enter ${netnsPath}`);
    const fd = Number(libc.socket(family === 4 ? AF_INET : AF_INET6, SOCK_STREAM_NONBLOCK_CLOEXEC, 0));
    const errno = libc.errno();
    // A thread that cannot come back must serve nobody else.
    if (libc.setns(home, CLONE.NEWNET) < 0) throw new Error(`${WAY_BACK} (errno ${String(libc.errno())})`);
    if (fd < 0) throw errnoError(errno, `open a socket in ${netnsPath}`);
    return fd;
  } finally {
    closeSync(namespace);
  }
}

function open(netnsPath: string): number {
  try {
    return openSync(netnsPath, 'r');
  } catch (error) {
    throw fromNodeError(error, `open network namespace ${netnsPath}`);
  }
}

parentPort?.on('message', (message: PeerRequest) => {
  void answerRequest(message, makeSocket, (reply) => {
    parentPort?.postMessage(reply);
    if (!reply.ok && reply.error.message.startsWith(WAY_BACK)) process.exit(1);
  });
});
