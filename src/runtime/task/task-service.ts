import type { Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { notImplemented } from '../../lib/errors.ts';
import type { OciRuntime } from '../oci/oci-runtime.ts';
import type { ExitRecord } from './exit-status.ts';
import type { ProcessTable, TaskCgroups } from './process-table.ts';
import type { CreateTaskRequest, ExecOutcome, ExecRequest, Task } from './task.ts';

export interface TaskServiceDeps {
  readonly clock: Clock;
  readonly processes: ProcessTable;
  readonly cgroups: TaskCgroups;
  readonly runtime: OciRuntime;
  /** Path of conmon. */
  readonly conmon: string;
  /** Cgroup leaf that the monitors are put in before they start anything; absent: they stay in the daemon's. */
  readonly monitorCgroup?: string;
  /** Exit files, on a disk that survives a reboot: `<root>/exits`. */
  readonly exitsDir: string;
  /** Volatile and short (the sockets' paths hold 107 bytes): `<state>`; `socks/` and `exec/` are made below it. */
  readonly stateDir: string;
}

/** Containers' processes: conmon + OCI runtime (being filled in). */
export class TaskService {
  constructor(_deps: TaskServiceDeps) {}
  /** conmon + OCI create. On failure everything it made is gone again, and the error has the runtime's own words. */
  create(_op: Op, _request: CreateTaskRequest): Promise<Task> {
    throw notImplemented('');
  }
  start(_op: Op, _task: Task): Promise<void> {
    throw notImplemented('');
  }
  /** Through a verified pidfd. False: the process is gone already. */
  signal(_op: Op, _task: Task, _signal: number): Promise<boolean> {
    throw notImplemented('');
  }
  /** SIGKILL to everything in the container's cgroup. */
  killAll(_op: Op, _task: Task): Promise<void> {
    throw notImplemented('');
  }
  /** Idempotent and resumable; `force`: also while it runs, else FailedPrecondition. The exit file stays: `forgetExit`. */
  delete(_op: Op, _task: Task, _options?: { readonly force?: boolean }): Promise<void> {
    throw notImplemented('');
  }
  exec(_op: Op, _task: Task, _request: ExecRequest): Promise<ExecOutcome> {
    throw notImplemented('');
  }
  reopenLog(_op: Op, _task: Task): Promise<void> {
    throw notImplemented('');
  }
  readExit(_id: string): Promise<ExitRecord | undefined> {
    throw notImplemented('');
  }
  /** Once the exit is durable elsewhere. */
  forgetExit(_id: string): Promise<void> {
    throw notImplemented('');
  }
}
