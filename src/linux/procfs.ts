import { readdir, readFile, readlink, stat } from 'node:fs/promises';
import { errnoOf } from '../lib/errors.ts';

/** A process is its pid and its start time: the pid alone may be a stranger's by now (DESIGN.md, idea 5). */
export interface ProcessKey {
  readonly pid: number;
  /** Clock ticks since boot, field 22 of /proc/PID/stat. Meaningful within one boot only. */
  readonly startTimeTicks: number;
}

export interface ProcessIdentity extends ProcessKey {
  readonly comm: string;
  /** `R`, `S`, `D`, `T`, `Z` … */
  readonly state: string;
  readonly ppid: number;
  /** The wait status (field 52), of a zombie only. */
  readonly exitCode?: number;
}

const AFTER_COMM = { state: 0, ppid: 1, startTime: 19, exitCode: 49 } as const;

/** Text of /proc/PID/stat. The name may hold blanks and brackets, so the last bracket ends it. */
export function parseProcessStat(text: string): ProcessIdentity | undefined {
  const open = text.indexOf('(');
  const close = text.lastIndexOf(')');
  if (open < 0 || close < open) return undefined;
  const rest = text.slice(close + 2).split(' ');
  const state = rest[AFTER_COMM.state];
  const startTimeTicks = Number(rest[AFTER_COMM.startTime]);
  if (state === undefined || !Number.isFinite(startTimeTicks)) return undefined;
  const exitCode = Number(rest[AFTER_COMM.exitCode]);
  return {
    pid: Number(text.slice(0, open)),
    comm: text.slice(open + 1, close),
    state,
    ppid: Number(rest[AFTER_COMM.ppid]),
    startTimeTicks,
    ...(state === 'Z' && Number.isFinite(exitCode) ? { exitCode } : {}),
  };
}

/** Undefined when there is no such process (any more). */
export async function processIdentity(pid: number): Promise<ProcessIdentity | undefined> {
  const text = await readProc(`/proc/${String(pid)}/stat`);
  return text === undefined ? undefined : parseProcessStat(text);
}

/** Whether exactly this process is there and not a zombie. */
export async function isAlive(key: ProcessKey): Promise<boolean> {
  const found = await processIdentity(key.pid);
  return (
    found !== undefined && found.startTimeTicks === key.startTimeTicks && found.state !== 'Z' && found.state !== 'X'
  );
}

/** A value that changes with every boot. */
export async function bootId(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
}

export async function readComm(pid: number): Promise<string | undefined> {
  return (await readProc(`/proc/${String(pid)}/comm`))?.trimEnd();
}

export async function readCmdline(pid: number): Promise<string[] | undefined> {
  return (await readProc(`/proc/${String(pid)}/cmdline`))?.split('\0').slice(0, -1);
}

/** The kernel function that the process sleeps in, for saying why it cannot be killed. */
export async function wchan(pid: number): Promise<string | undefined> {
  const text = (await readProc(`/proc/${String(pid)}/wchan`))?.trim();
  return text === '0' || text === '' ? undefined : text;
}

export async function listPids(): Promise<number[]> {
  return (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
}

/** `pid 17 (sleep, state D in nfs_wait)`, for messages. Those that are gone are left out. */
export async function describeProcesses(pids: readonly number[]): Promise<string> {
  const parts: string[] = [];
  for (const pid of pids.slice(0, 5)) {
    const identity = await processIdentity(pid);
    const where = await wchan(pid);
    if (identity === undefined) continue;
    parts.push(
      `pid ${String(pid)} (${identity.comm}, state ${identity.state}${where === undefined ? '' : ` in ${where}`})`,
    );
  }
  if (pids.length > 5) parts.push(`and ${String(pids.length - 5)} more`);
  return parts.length === 0 ? 'no process to be seen' : parts.join(', ');
}

export type NamespaceKind = 'cgroup' | 'ipc' | 'mnt' | 'net' | 'pid' | 'user' | 'uts';

/** The inode that names a process's namespace. Undefined when the process is gone. */
export async function namespaceOf(pid: number | 'self', kind: NamespaceKind): Promise<number | undefined> {
  try {
    const target = await readlink(`/proc/${String(pid)}/ns/${kind}`);
    const inode = /\[(\d+)\]$/.exec(target)?.[1];
    return inode === undefined ? undefined : Number(inode);
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  }
}

/** The inode of a pinned namespace, or of any file. Undefined when there is none. */
export async function inodeOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).ino;
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  }
}

async function readProc(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  }
}

/** ESRCH: it ended between open and read. EACCES: a kernel thread, or one that is just ending. */
function isGone(error: unknown): boolean {
  return ['ENOENT', 'ESRCH', 'EACCES', 'ENOTDIR'].includes(errnoOf(error) ?? '');
}
