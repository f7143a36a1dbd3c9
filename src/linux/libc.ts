import koffi from 'koffi';

/**
 * The C library's calls by their C signatures. Calls without a wrapper of their own go through syscall(2); those have
 * the same number on every architecture (all are newer than the unified table that starts at 424).
 */
const library = koffi.load('libc.so.6');

/** A C function that answers -1 (or another negative number) on failure. `async` runs it in libuv's pool. */
export interface CFunction<Args extends readonly unknown[]> {
  (...args: Args): number | bigint;
  async(...args: [...Args, (error: unknown, result: number | bigint) => void]): void;
}

type Text = string | null;
type Bytes = Uint8Array | null;

const c = <Args extends readonly unknown[]>(signature: string): CFunction<Args> => library.func(signature);

export const SYS = {
  pidfd_send_signal: 424,
  open_tree: 428,
  move_mount: 429,
  fsopen: 430,
  fsconfig: 431,
  fsmount: 432,
  pidfd_open: 434,
  openat2: 437,
  mount_setattr: 442,
} as const;

export const libc = {
  errno: (): number => koffi.errno(),
  mount: c<[Text, string, Text, number, Text]>(
    'int mount(const char *source, const char *target, const char *type, unsigned long flags, const char *data)',
  ),
  umount2: c<[string, number]>('int umount2(const char *target, int flags)'),
  openat2: c<[number, number, string, Bytes, number]>(
    'long syscall(long number, int dirfd, const char *path, const void *how, size_t size)',
  ),
  openTree: c<[number, number, string, number]>(
    'long syscall(long number, int dirfd, const char *path, unsigned int flags)',
  ),
  moveMount: c<[number, number, string, number, string, number]>(
    'long syscall(long number, int from, const char *fromPath, int to, const char *toPath, unsigned int flags)',
  ),
  mountSetattr: c<[number, number, string, number, Bytes, number]>(
    'long syscall(long number, int dirfd, const char *path, unsigned int flags, const void *attr, size_t size)',
  ),
  fsopen: c<[number, string, number]>('long syscall(long number, const char *type, unsigned int flags)'),
  fsconfig: c<[number, number, number, Text, Text, number]>(
    'long syscall(long number, int fd, unsigned int command, const char *key, const char *value, int aux)',
  ),
  fsmount: c<[number, number, number, number]>(
    'long syscall(long number, int fd, unsigned int flags, unsigned int attributes)',
  ),
  pipe2: c<[Bytes, number]>('int pipe2(void *fds, int flags)'),
  pidfdOpen: c<[number, number, number]>('long syscall(long number, int pid, unsigned int flags)'),
  pidfdSendSignal: c<[number, number, number, null, number]>(
    'long syscall(long number, int pidfd, int signal, const void *info, unsigned int flags)',
  ),
  ioctl: c<[number, number, Uint8Array]>('int ioctl(int fd, unsigned long request, _Inout_ uint8_t *argument)'),
  read: c<[number, Uint8Array, number]>('long read(int fd, _Out_ uint8_t *buffer, size_t size)'),
  write: c<[number, Uint8Array, number]>('long write(int fd, const uint8_t *buffer, size_t size)'),
  close: c<[number]>('int close(int fd)'),
  flock: c<[number, number]>('int flock(int fd, int operation)'),
  socket: c<[number, number, number]>('int socket(int domain, int type, int protocol)'),
  bind: c<[number, Uint8Array, number]>('int bind(int fd, const void *address, unsigned int size)'),
  listen: c<[number, number]>('int listen(int fd, int backlog)'),
  accept4: c<[number, null, null, number]>('int accept4(int fd, void *address, void *size, int flags)'),
  connect: c<[number, Uint8Array, number]>('int connect(int fd, const void *address, unsigned int size)'),
  shutdown: c<[number, number]>('int shutdown(int fd, int how)'),
  recv: c<[number, Uint8Array, number, number]>('long recv(int fd, _Out_ uint8_t *buffer, size_t size, int flags)'),
  send: c<[number, Uint8Array, number, number]>('long send(int fd, const uint8_t *buffer, size_t size, int flags)'),
  recvmsg: c<[number, Uint8Array, number]>('long recvmsg(int fd, _Inout_ uint8_t *message, int flags)'),
  mkdirat: c<[number, string, number]>('int mkdirat(int dirfd, const char *path, unsigned int mode)'),
  mknodat: c<[number, string, number, number | bigint]>(
    'int mknodat(int dirfd, const char *path, unsigned int mode, unsigned long device)',
  ),
  linkat: c<[number, string, number, string, number]>(
    'int linkat(int oldDir, const char *oldPath, int newDir, const char *newPath, int flags)',
  ),
  symlinkat: c<[string, number, string]>('int symlinkat(const char *target, int dirfd, const char *path)'),
  unlinkat: c<[number, string, number]>('int unlinkat(int dirfd, const char *path, int flags)'),
  renameat2: c<[number, string, number, string, number]>(
    'int renameat2(int oldDir, const char *oldPath, int newDir, const char *newPath, unsigned int flags)',
  ),
  fchownat: c<[number, string, number, number, number]>(
    'int fchownat(int dirfd, const char *path, unsigned int uid, unsigned int gid, int flags)',
  ),
  fchmodat: c<[number, string, number, number]>(
    'int fchmodat(int dirfd, const char *path, unsigned int mode, int flags)',
  ),
  fchmod: c<[number, number]>('int fchmod(int fd, unsigned int mode)'),
  utimensat: c<[number, string, Uint8Array, number]>(
    'int utimensat(int dirfd, const char *path, const void *times, int flags)',
  ),
  lsetxattr: c<[string, string, Uint8Array, number, number]>(
    'int lsetxattr(const char *path, const char *name, const void *value, size_t size, int flags)',
  ),
  fsetxattr: c<[number, string, Uint8Array, number, number]>(
    'int fsetxattr(int fd, const char *name, const void *value, size_t size, int flags)',
  ),
  lgetxattr: c<[string, string, Uint8Array, number]>(
    'long lgetxattr(const char *path, const char *name, _Out_ uint8_t *value, size_t size)',
  ),
  llistxattr: c<[string, Uint8Array, number]>('long llistxattr(const char *path, _Out_ uint8_t *list, size_t size)'),
  lremovexattr: c<[string, string]>('int lremovexattr(const char *path, const char *name)'),
  statx: c<[number, string, number, number, Uint8Array]>(
    'int statx(int dirfd, const char *path, int flags, unsigned int mask, _Out_ uint8_t *buffer)',
  ),
  fstatfs: c<[number, Uint8Array]>('int fstatfs(int fd, _Out_ uint8_t *buffer)'),
  statfs: c<[string, Uint8Array]>('int statfs(const char *path, _Out_ uint8_t *buffer)'),
  syncfs: c<[number]>('int syncfs(int fd)'),
  unshare: c<[number]>('int unshare(int flags)'),
  setns: c<[number, number]>('int setns(int fd, int type)'),
  sethostname: c<[string, number]>('int sethostname(const char *name, size_t length)'),
  epollCreate1: c<[number]>('int epoll_create1(int flags)'),
  epollCtl: c<[number, number, number, Uint8Array | null]>(
    'int epoll_ctl(int epoll, int operation, int fd, const void *event)',
  ),
  epollWait: c<[number, Uint8Array, number, number]>(
    'int epoll_wait(int epoll, _Out_ uint8_t *events, int max, int timeoutMs)',
  ),
  eventfd: c<[number, number]>('int eventfd(unsigned int initial, int flags)'),
  waitpid: c<[number, Uint8Array, number]>('int waitpid(int pid, _Out_ uint8_t *status, int options)'),
  posixSpawnp: c<[Uint8Array, string, Bytes, Bytes, readonly Text[], readonly Text[]]>(
    'int posix_spawnp(_Out_ uint8_t *pid, const char *file, const void *actions, const void *attributes, const char **argv, const char **environment)',
  ),
  posixSpawnattrInit: c<[Bytes]>('int posix_spawnattr_init(void *attributes)'),
  posixSpawnattrSetflags: c<[Bytes, number]>('int posix_spawnattr_setflags(void *attributes, short flags)'),
  posixSpawnattrSetsigdefault: c<[Bytes, Bytes]>(
    'int posix_spawnattr_setsigdefault(void *attributes, const void *signals)',
  ),
  posixSpawnattrSetsigmask: c<[Bytes, Bytes]>('int posix_spawnattr_setsigmask(void *attributes, const void *signals)'),
  fileActionsInit: c<[Bytes]>('int posix_spawn_file_actions_init(void *actions)'),
  fileActionsDestroy: c<[Bytes]>('int posix_spawn_file_actions_destroy(void *actions)'),
  fileActionsAddchdir: c<[Bytes, string]>('int posix_spawn_file_actions_addchdir_np(void *actions, const char *path)'),
  fileActionsAddopen: c<[Bytes, number, string, number, number]>(
    'int posix_spawn_file_actions_addopen(void *actions, int fd, const char *path, int flags, unsigned int mode)',
  ),
  fileActionsAdddup2: c<[Bytes, number, number]>('int posix_spawn_file_actions_adddup2(void *actions, int fd, int as)'),
  fileActionsAddclosefrom: c<[Bytes, number]>('int posix_spawn_file_actions_addclosefrom_np(void *actions, int first)'),
} as const;

interface Answer {
  readonly result: number;
  readonly errno: number;
}

/** koffi refuses a call beyond its 256, those that wait for a thread counted in: with hundreds of containers at once there are more. */
const CALLS_AT_ONCE = 200;

/** Calls in the order in which they were made, as many at once as koffi takes. */
class CallQueue {
  #free = CALLS_AT_ONCE;
  readonly #waiting: (() => void)[] = [];

  run(call: () => Promise<Answer>): Promise<Answer> {
    if (this.#free === 0) return new Promise((resolve) => this.#waiting.push(() => resolve(this.#start(call))));
    this.#free--;
    return this.#start(call);
  }

  async #start(call: () => Promise<Answer>): Promise<Answer> {
    try {
      return await call();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next();
    }
  }
}

// Belongs to the loaded library, whose limit it keeps: there is one of both in a thread.
const queue = new CallQueue();

/** Runs a C function in libuv's pool. Resolves with its result and errno; never use it for unshare or setns. */
export function callAsync<Args extends readonly unknown[]>(fn: CFunction<Args>, ...args: Args): Promise<Answer> {
  return queue.run(
    () =>
      new Promise((resolve, reject) => {
        fn.async(...args, (error, result) => {
          // koffi carries the pool thread's errno over to the callback.
          const errno = koffi.errno();
          if (error === null || error === undefined) resolve({ result: Number(result), errno });
          else reject(error instanceof Error ? error : new Error('a system call could not be made', { cause: error }));
        });
      }),
  );
}
