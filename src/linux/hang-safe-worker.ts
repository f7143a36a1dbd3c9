import { stat, statfs } from 'node:fs/promises';
import { errnoError, fromNodeError } from './errno.ts';
import type { FileSystemStat, HangSafeRequest, PathStat } from './hang-safe.ts';
import { callAsync, libc } from './libc.ts';
import { answerRequest, type PeerRequest } from './peer-protocol.ts';

/** The helper process of HangSafe. Each call runs in libuv's pool, so that one that hangs does not hold up the others. */

async function handle(request: HangSafeRequest): Promise<unknown> {
  switch (request.call) {
    case 'umount2': {
      const { result, errno } = await callAsync(libc.umount2, request.target, request.flags);
      if (result < 0) throw errnoError(errno, `unmount ${request.target}`);
      return undefined;
    }
    case 'stat':
      return await pathStat(request.path);
    case 'statfs':
      return await fileSystemStat(request.path);
    case 'mountFrom': {
      // Synchronous: the working directory belongs to the whole process.
      process.chdir(request.directory);
      const result = libc.mount(request.source, request.target, request.type, request.flags, request.data);
      const errno = libc.errno();
      process.chdir('/');
      if (result < 0) throw errnoError(errno, `mount ${request.type} on ${request.target}`);
      return undefined;
    }
  }
}

async function pathStat(path: string): Promise<PathStat> {
  try {
    const { mode, uid, gid, size, dev, ino } = await stat(path);
    return { mode, uid, gid, sizeBytes: size, dev, ino };
  } catch (error) {
    throw fromNodeError(error, `stat ${path}`);
  }
}

async function fileSystemStat(path: string): Promise<FileSystemStat> {
  try {
    const { type, bsize, blocks, bfree, bavail, files, ffree } = await statfs(path);
    return {
      type,
      totalBytes: blocks * bsize,
      freeBytes: bfree * bsize,
      availableBytes: bavail * bsize,
      inodes: files,
      freeInodes: ffree,
    };
  } catch (error) {
    throw fromNodeError(error, `statfs ${path}`);
  }
}

process.on('message', (message) => {
  void answerRequest(message as PeerRequest, handle, (reply) => {
    // A daemon that was killed takes no answer any more.
    process.send?.(reply, undefined, undefined, (error) => {
      if (error !== null) end();
    });
  });
});
process.on('disconnect', end);

function end(): void {
  // Not exit(): that would wait for the threads, and one of them may hang for ever.
  process.kill(process.pid, 'SIGKILL');
}
