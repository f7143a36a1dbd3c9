import { realFileSyscalls, type FileSyscalls } from './file-syscalls.ts';
import { realMountSyscalls, type MountSyscalls } from './mount-syscalls.ts';

export type { FileSyscalls, Path, StatxResult } from './file-syscalls.ts';
export type { MountSyscalls } from './mount-syscalls.ts';

/** The kernel's edge: the only way from Gantry to system calls that Node does not offer. */
export type Syscalls = FileSyscalls & MountSyscalls;

/** The real calls. An instance has scratch buffers of its own: one per thread, made where it is used. */
export function realSyscalls(): Syscalls {
  return { ...realFileSyscalls(), ...realMountSyscalls() };
}
