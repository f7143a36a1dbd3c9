import type { Syscalls } from './syscalls.ts';

export interface RecordedCall {
  readonly name: keyof Syscalls;
  readonly args: readonly unknown[];
}

export interface FakeSyscalls {
  readonly calls: RecordedCall[];
  readonly syscalls: Syscalls;
}

const SYNCHRONOUS_FDS = new Set<keyof Syscalls>(['openat2', 'openTreeSync', 'fsopen', 'fsmountSync']);
const ASYNCHRONOUS_FDS = new Set<keyof Syscalls>(['openTree', 'fsmount']);
const SYNCHRONOUS = new Set<keyof Syscalls>([
  ...['close', 'mkdirat', 'mknodat', 'linkat', 'symlinkat', 'unlinkat', 'renameat2', 'fchownat', 'fchmodat'],
  ...['fchmod', 'utimensat', 'lsetxattr', 'fsetxattr', 'lgetxattr', 'lremovexattr', 'syncfs', 'mountSetattrSync'],
  ...['moveMountSync', 'fsconfigSync'],
] as (keyof Syscalls)[]);

/** Records each call in order. What is not given in `answers` succeeds: descriptors count up from 100. */
export function fakeSyscalls(answers: Partial<Syscalls> = {}): FakeSyscalls {
  const calls: RecordedCall[] = [];
  let nextFd = 100;
  const answer = (name: keyof Syscalls, args: readonly unknown[]): unknown => {
    calls.push({ name, args });
    const own = answers[name] as ((...args: readonly unknown[]) => unknown) | undefined;
    if (own !== undefined) return own(...args);
    if (SYNCHRONOUS_FDS.has(name)) return nextFd++;
    if (ASYNCHRONOUS_FDS.has(name)) return Promise.resolve(nextFd++);
    if (name === 'fsMessages' || name === 'llistxattr') return [];
    if (SYNCHRONOUS.has(name)) return undefined;
    return Promise.resolve();
  };
  const syscalls = new Proxy({} as Syscalls, {
    get:
      (_target, name) =>
      (...args: unknown[]) =>
        answer(name as keyof Syscalls, args),
  });
  return { calls, syscalls };
}
