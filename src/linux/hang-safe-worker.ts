import { errnoError } from './errno.ts';
import { fileEnd, fileSystemStat, listFolder, makeFile, makeFolder, pathStat, realPath } from './file-look.ts';
import type { HangSafeRequest } from './hang-safe.ts';
import { callAsync, libc } from './libc.ts';
import { answerRequest, type PeerRequest } from './peer-protocol.ts';
import { readNamedFile } from './read-named-file.ts';

/**
 * The helper process of HangSafe. Each call runs in libuv's pool, so that one that hangs does not hold up the others; except `mountFrom`,
 * which holds all of them up while it lasts: whoever does not get an answer in time goes on without this process.
 */

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
    case 'realpath':
      return await realPath(request.path);
    case 'mkdir':
      await makeFolder(request.path, request.mode);
      return undefined;
    case 'makeFile':
      await makeFile(request.path, request.mode);
      return undefined;
    case 'list':
      return await listFolder(request.path);
    case 'readFile':
      return await readNamedFile(request.path, request.maxBytes);
    case 'fileEnd':
      return await fileEnd(request.path, request.bytes);
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
