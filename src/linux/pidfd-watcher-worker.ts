import { parentPort, workerData } from 'node:worker_threads';
import { errnoError, errnoName } from './errno.ts';
import { libc } from './libc.ts';
import type { WatcherThreadData } from './pidfd-watcher.ts';

/** The thread of PidfdWatcher: waits in the kernel and hands on the tokens of those that ended. */

const MAX_EVENTS = 64;
const EVENT_BYTES = process.arch === 'x64' ? 12 : 16;
const DATA_OFFSET = process.arch === 'x64' ? 4 : 8;
const FOREVER_MS = -1;

const { epoll, stop } = workerData as WatcherThreadData;
const stopFlag = new Int32Array(stop);
const events = Buffer.alloc(MAX_EVENTS * EVENT_BYTES);

while (Atomics.load(stopFlag, 0) === 0) {
  const count = Number(libc.epollWait(epoll, events, MAX_EVENTS, FOREVER_MS));
  if (count < 0) {
    const errno = libc.errno();
    if (errnoName(errno) === 'EINTR') continue;
    throw errnoError(errno, 'epoll_wait');
  }
  const tokens: number[] = [];
  for (let index = 0; index < count; index++) {
    const token = Number(events.readBigUInt64LE(index * EVENT_BYTES + DATA_OFFSET));
    // 0 is the wake-up call.
    if (token !== 0) tokens.push(token);
  }
  if (tokens.length > 0) parentPort?.postMessage(tokens);
}
