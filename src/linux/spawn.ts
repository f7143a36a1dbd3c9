import { errnoError } from './errno.ts';
import { callAsync, libc } from './libc.ts';
import { decodeWaitStatus } from './pidfd.ts';
import { signalName } from './signals.ts';

export interface SpawnOptions {
  /** With a slash it is a path, without one it is looked for in our own PATH. */
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Our descriptors, in the order of the numbers that the program sees them under; `null` is /dev/null. It gets no others. */
  readonly fds: readonly (number | null)[];
}

export interface ChildExit {
  /** -1 when a signal ended it. */
  readonly code: number;
  readonly signal: NodeJS.Signals | null;
}

/** A child of ours. Its number is its own until `exit` is there, so signals by number reach nobody else. */
export interface Child {
  readonly pid: number;
  readonly exited: Promise<ChildExit>;
  /** Undefined while it runs. */
  readonly exit: ChildExit | undefined;
  /** To the child alone. Nothing happens when it has ended. */
  kill(signal: NodeJS.Signals): void;
  /** To the child and all that is in its session's first process group. Nothing happens when it has ended. */
  killGroup(signal: NodeJS.Signals): void;
  /** Node may end although it still runs. */
  unref(): void;
}

/**
 * Starts a program in a session of its own, with no signal blocked or ignored. Node's own spawn forks the daemon, which copies its page
 * tables while everything else waits (some 2 ms, more as it grows); here the C library shares them (vfork), in a thread of libuv's pool, so that
 * the main thread waits neither for that nor for a program that has to be read from a slow disk.
 * Throws what the call says: NotFound for no such program or folder, ResourceExhausted and the like.
 */
export async function spawnProcess(options: SpawnOptions): Promise<Child> {
  const pidOut = new Int32Array(1);
  const actions = new FileActions(options);
  try {
    reaper.expect();
    const { result } = await callAsync(
      libc.posixSpawnp,
      new Uint8Array(pidOut.buffer),
      options.file,
      actions.bytes,
      attributes,
      [options.file, ...options.args, null],
      environment(options.env),
    );
    if (result !== 0) throw errnoError(result, `start ${options.file}`);
    return reaper.adopt(pidOut[0] ?? 0);
  } finally {
    reaper.expected();
    actions.release();
  }
}

function environment(env: SpawnOptions['env']): (string | null)[] {
  const pairs = Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`]));
  return [...pairs, null];
}

// Larger than glibc's posix_spawn_file_actions_t (80 bytes) and posix_spawnattr_t (336), which grow by what they have in reserve.
const STRUCT_BYTES = 1024;
const SIGSET_BYTES = 128;
const POSIX_SPAWN_SETSIGDEF = 0x04;
const POSIX_SPAWN_SETSIGMASK = 0x08;
const POSIX_SPAWN_SETSID = 0x80;
const O_RDWR = 2;

/** The same for each child: a session of its own, no signal ignored or blocked, whatever Node has done about them. */
const attributes = makeAttributes();

function makeAttributes(): Uint8Array {
  const bytes = new Uint8Array(STRUCT_BYTES);
  const all = new Uint8Array(SIGSET_BYTES).fill(0xff);
  checked(libc.posixSpawnattrInit(bytes), 'posix_spawnattr_init');
  checked(libc.posixSpawnattrSetsigdefault(bytes, all), 'posix_spawnattr_setsigdefault');
  checked(libc.posixSpawnattrSetsigmask(bytes, new Uint8Array(SIGSET_BYTES)), 'posix_spawnattr_setsigmask');
  const flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID;
  checked(libc.posixSpawnattrSetflags(bytes, flags), 'posix_spawnattr_setflags');
  return bytes;
}

/** What the child does between its birth and the program: folder and descriptors. */
class FileActions {
  readonly bytes = new Uint8Array(STRUCT_BYTES);

  constructor({ cwd, fds }: SpawnOptions) {
    checked(libc.fileActionsInit(this.bytes), 'posix_spawn_file_actions_init');
    checked(libc.fileActionsAddchdir(this.bytes, cwd), 'posix_spawn_file_actions_addchdir_np');
    const sources = this.#outOfTheWay(fds);
    sources.forEach((fd, number) => {
      if (fd === null) checked(libc.fileActionsAddopen(this.bytes, number, '/dev/null', O_RDWR, 0), 'addopen');
      else checked(libc.fileActionsAdddup2(this.bytes, fd, number), 'adddup2');
    });
    checked(libc.fileActionsAddclosefrom(this.bytes, fds.length), 'posix_spawn_file_actions_addclosefrom_np');
  }

  /** A descriptor of ours may have a number that another one is to get: such a one goes above all of them first. */
  #outOfTheWay(fds: readonly (number | null)[]): (number | null)[] {
    let free = Math.max(fds.length, ...fds.map((fd) => (fd ?? 0) + 1));
    return fds.map((fd) => {
      if (fd === null || fd >= fds.length) return fd;
      checked(libc.fileActionsAdddup2(this.bytes, fd, free), 'adddup2');
      return free++;
    });
  }

  release(): void {
    libc.fileActionsDestroy(this.bytes);
  }
}

/** These calls answer with the errno itself. */
function checked(result: number | bigint, what: string): void {
  if (result !== 0) throw errnoError(Number(result), what);
}

const WNOHANG = 1;

interface Known {
  settle(exit: ChildExit): void;
  held: boolean;
}

/** Waits for the children that libuv does not know of: SIGCHLD says that it is worth asking for each. On the main thread only, which alone hears signals. */
class Reaper {
  readonly #children = new Map<number, Known>();
  /** Keeps Node from ending while somebody waits for a child. */
  #hold: MessagePort | undefined;
  #starting = 0;
  #listening = false;

  /** Before the call that makes a child. */
  expect(): void {
    this.#starting++;
    if (!this.#listening) process.on('SIGCHLD', () => this.#look());
    this.#listening = true;
    this.#holdOrLetGo();
  }

  /** After it. */
  expected(): void {
    this.#starting--;
    this.#holdOrLetGo();
  }

  adopt(pid: number): Child {
    const { promise, resolve } = Promise.withResolvers<ChildExit>();
    let exit: ChildExit | undefined;
    const known: Known = {
      held: true,
      settle: (found) => {
        exit = found;
        resolve(found);
      },
    };
    this.#children.set(pid, known);
    // It may have ended before it was known here.
    queueMicrotask(() => this.#look());
    const send = (target: number, signal: NodeJS.Signals): void => {
      if (exit !== undefined) return;
      try {
        process.kill(target, signal);
      } catch {
        // All of its group have ended already.
      }
    };
    return {
      pid,
      exited: promise,
      get exit() {
        return exit;
      },
      kill: (signal) => send(pid, signal),
      killGroup: (signal) => send(-pid, signal),
      unref: () => {
        known.held = false;
        this.#holdOrLetGo();
      },
    };
  }

  #look(): void {
    const status = new Int32Array(1);
    for (const [pid, known] of this.#children) {
      const result = Number(libc.waitpid(pid, new Uint8Array(status.buffer), WNOHANG));
      if (result === 0) continue;
      this.#children.delete(pid);
      // Nobody else reaps it; should it be gone all the same, how it ended cannot be known.
      known.settle(result === pid ? exitOf(status[0] ?? 0) : { code: -1, signal: null });
    }
    this.#holdOrLetGo();
  }

  #holdOrLetGo(): void {
    const wanted = this.#starting > 0 || [...this.#children.values()].some(({ held }) => held);
    if (wanted === (this.#hold !== undefined)) return;
    this.#hold?.close();
    this.#hold = wanted ? heldPort() : undefined;
  }
}

const reaper = new Reaper();

function exitOf(status: number): ChildExit {
  const ended = decodeWaitStatus(status);
  if (ended.kind === 'exited') return { code: ended.code, signal: null };
  return { code: -1, signal: signalName(ended.signal) as NodeJS.Signals };
}

function heldPort(): MessagePort {
  const { port1 } = new MessageChannel();
  port1.onmessage = () => undefined;
  port1.ref();
  return port1;
}
