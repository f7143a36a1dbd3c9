import { withLimit, type Op } from '../../lib/abort.ts';
import { invalidArgument } from '../../lib/errors.ts';
import { Slots } from '../../lib/slots.ts';
import { OciRuntime, type CheckpointFolders } from '../oci/oci-runtime.ts';
import type { OciState } from '../oci/spec.ts';
import { attachTask } from './attach-task.ts';
import { longestStateDir } from './bundle-files.ts';
import { checkpointTask } from './checkpoint-task.ts';
import { createTask } from './create-task.ts';
import { deleteTask, type DeleteOptions, type TaskRemains } from './delete-task.ts';
import { execInTask } from './exec-task.ts';
import { forgetExitFile, readExitFile } from './exit-file.ts';
import type { ExitRecord } from './exit-status.ts';
import type { RemoteStdio } from './remote-stdio.ts';
import { reopenLog } from './reopen-log.ts';
import { streamExec } from './stream-exec.ts';
import { sweepExecs } from './sweep-execs.ts';
import { taskContext, type TaskContext, type TaskServiceDeps } from './task-context.ts';
import type { AttachRequest, CreateTaskRequest, ExecOutcome, ExecRequest, StreamedExec, Task } from './task.ts';

export type { TaskServiceDeps } from './task-context.ts';
export type { TaskRemains } from './delete-task.ts';

/** More at once gain nothing and stall the event loop: 50 at once took as long as 4 at a time. */
const CREATES_AT_ONCE = 4;
/** No create that makes any progress takes as long, on a slow machine either. */
const CREATE_HOLD_MS = 10_000;
/** A create takes 20 ms, and minutes on a machine that swaps. Its turn may be long in coming: that counts for nothing here. */
const CREATE_TIMEOUT_MS = 120_000;

/** What the runtime's verbs call. */
export type Tasks = Pick<TaskService, keyof TaskService>;

/** A running container: its first process, its monitor, and the OCI runtime that knows both. */
export class TaskService {
  readonly #context: TaskContext;
  readonly #creates: Slots;

  /** Throws InvalidArgument for a state folder whose path is too long for the monitors' sockets. */
  constructor(deps: TaskServiceDeps) {
    this.#context = taskContext(deps);
    this.#creates = new Slots(CREATES_AT_ONCE, {
      what: 'making a task',
      hold: { clock: deps.clock, ms: CREATE_HOLD_MS },
    });
    const longest = longestStateDir();
    const bytes = Buffer.byteLength(deps.paths.state);
    if (bytes > longest) {
      throw invalidArgument(
        `--state ${deps.paths.state}: ${bytes} bytes are too long for the sockets below it, at most ${longest} fit`,
      );
    }
  }

  /**
   * conmon and the OCI runtime's create. When it fails everything it made is gone again, and the error has the runtime's own words: NotFound
   * or PermissionDenied for a command that cannot be run.
   */
  create(op: Op, request: CreateTaskRequest): Promise<Task> {
    return this.#creates.run(op, () =>
      withLimit(op, this.#context.clock, CREATE_TIMEOUT_MS, `creating task ${request.id}`, (limited) =>
        createTask(limited, this.#context, request),
      ),
    );
  }

  /** Lets the container's own command run. */
  start(op: Op, task: Task): Promise<void> {
    return new OciRuntime(task.runtime).start(op, task.id);
  }

  /** The OCI runtime's own word; undefined when it knows no such container. */
  state(op: Op, task: Task): Promise<OciState | undefined> {
    return new OciRuntime(task.runtime).state(op, task.id);
  }

  /** To the first process, through a pidfd whose start time was compared. False: it is gone already. */
  async signal(_op: Op, task: Task, signal: number): Promise<boolean> {
    return await this.#context.processes.signal(task, signal);
  }

  /** SIGKILL to everything in the container's cgroup. */
  async killAll(op: Op, task: Task): Promise<void> {
    await this.#context.cgroups.killAll(op, task.cgroupPath);
  }

  /**
   * Takes away task, monitor, cgroup and the small files of both; can be called again after any failure, and with what little is known of
   * a create that was cut off. FailedPrecondition while the first process lives, unless `force`. The exit file stays until {@link forgetExit}.
   */
  delete(op: Op, task: TaskRemains, options?: DeleteOptions): Promise<void> {
    return deleteTask(op, this.#context, task, options);
  }

  exec(op: Op, task: Task, request: ExecRequest): Promise<ExecOutcome> {
    return execInTask(op, this.#context, task, request);
  }

  /** See {@link streamExec}. Resolves with the exit code. */
  streamExec(op: Op, task: Task, request: StreamedExec, remote: RemoteStdio): Promise<number> {
    return streamExec(op, this.#context, task, request, remote);
  }

  /** See {@link attachTask}. */
  attach(op: Op, task: Task, request: AttachRequest, remote: RemoteStdio): Promise<void> {
    return attachTask(op, this.#context, task, request, remote);
  }

  /** See {@link checkpointTask}. */
  checkpoint(op: Op, task: Task, folders: CheckpointFolders): Promise<void> {
    return checkpointTask(op, task, folders);
  }

  /** At start: ends what an earlier process was executing when it was killed. Says how many there were. */
  sweepExecs(op: Op): Promise<number> {
    return sweepExecs(op, this.#context);
  }

  reopenLog(op: Op, task: Task): Promise<void> {
    return reopenLog(op, this.#context, task);
  }

  /** What conmon has left; undefined: nothing, or nothing whole, yet. */
  readExit(id: string): Promise<ExitRecord | undefined> {
    return readExitFile(this.#context.exits, id);
  }

  /** For when the exit is durable elsewhere and the container is removed. */
  forgetExit(id: string): Promise<void> {
    return forgetExitFile(this.#context.exits, id);
  }
}
