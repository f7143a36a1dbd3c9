import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { detached, raceSignal, type Op } from '../../lib/abort.ts';
import { GantryError, internal, isKind, messageOf, withContext } from '../../lib/errors.ts';
import { settleAll } from '../../lib/settle-all.ts';
import { waitingFor } from '../../lib/waits.ts';
import { globalOptions } from '../oci/oci-runtime.ts';
import { classifyRuntimeError } from '../oci/runtime-error.ts';
import { bundleFiles, socketName } from './bundle-files.ts';
import { spawnConmon, type ConmonProcess, type SyncMessage } from './conmon.ts';
import { deleteTask } from './delete-task.ts';
import { forgetExitFile } from './exit-file.ts';
import type { ProcessKey } from '../../linux/procfs.ts';
import type { TaskContext } from './task-context.ts';
import type { CreateTaskRequest, Task } from './task.ts';

/** Undoing a failed create: an OCI delete of a half-made container and the monitor's end, on a slow disk too. */
const UNDO_MS = 60_000;

/**
 * Makes the container and its monitor; the container's own command does not run yet. If that fails, what was made is
 * gone again (or named in the error's details) and the error says why in the OCI runtime's own words; a missing command is NotFound.
 */
export async function createTask(op: Op, context: TaskContext, request: CreateTaskRequest): Promise<Task> {
  const files = bundleFiles(request.bundleDir);
  const folders = [context.exits.written, context.exits.kept, context.socketsDir];
  await settleAll<unknown>([
    ...folders.map((folder) => mkdir(folder, { recursive: true, mode: 0o700 })),
    writeFile(files.config, JSON.stringify(request.oci), { mode: 0o600 }),
  ]);
  let monitor: ConmonProcess | undefined;
  try {
    await context.faults.reach('make-task/config-written');
    monitor = await spawnConmon({
      path: context.conmon,
      args: createArguments(context, request),
      // Not `/`: conmon leaves a file `oom` in its working directory.
      cwd: request.bundleDir,
    });
    await context.faults.reach('make-task/monitor-spawned');
    const spawned = monitor;
    // Beside the OCI runtime's work. Why there is no monitor is better said by what comes on its pipe.
    const settled = settleMonitor(op, context, request, spawned);
    settled.catch(() => undefined);
    const message = await waitingFor(op, `${request.runtime.name} create`, () => spawned.nextMessage(op));
    const pid = await createdPid(op, request, monitor, message);
    await context.faults.reach('make-task/created');
    const conmon = await settled;
    const init = await identityOf(context, pid, 'container');
    return {
      id: request.id,
      pid: init.pid,
      startTimeTicks: init.startTimeTicks,
      conmonPid: conmon.pid,
      conmonStartTimeTicks: conmon.startTimeTicks,
      bundleDir: request.bundleDir,
      cgroupPath: request.cgroupPath,
      ...(request.logPath === undefined ? {} : { logPath: request.logPath }),
      terminal: request.terminal,
      runtime: request.runtime,
    };
  } catch (error) {
    throw await undo(op, context, request, error);
  } finally {
    monitor?.letGo();
  }
}

function createArguments(context: TaskContext, request: CreateTaskRequest): string[] {
  const files = bundleFiles(request.bundleDir);
  const { runtime } = request;
  return [
    ...['--api-version', '1'],
    ...['--cid', request.id, '--cuuid', socketName(request.id), '--name', request.id],
    ...['--runtime', runtime.path, '--bundle', request.bundleDir],
    ...['--container-pidfile', files.pidFile, '--conmon-pidfile', files.conmonPidFile],
    ...['--log-path', request.logPath === undefined ? 'off' : `k8s-file:${request.logPath}`],
    ...['--exit-dir', context.exits.written, '--socket-dir-path', context.socketsDir],
    ...keepExitArguments(context, request.id),
    ...['--log-level', 'error'],
    // An fsync of the log would hold the exit file back, for seconds on a busy disk.
    '--no-sync-log',
    ...[...globalOptions(runtime), `--log=${files.runtimeLog}`, '--log-format=json'].flatMap((word) => [
      '--runtime-arg',
      word,
    ]),
    ...(request.terminal ? ['--terminal'] : []),
    ...(request.stdin ? ['--stdin'] : []),
    // A terminal's stays open in any case, as the field has it: `kubectl attach -it` comes back to what `kubectl run -it` has left.
    ...(request.stdin && (request.terminal || !request.stdinOnce) ? ['--leave-stdin-open'] : []),
  ];
}

/** What conmon runs when it ends, whether there is a daemon or not. Its failure is nothing to conmon: a full disk, no container that ran. */
function keepExitArguments({ cp, exits }: TaskContext, id: string): string[] {
  // The time of an exit is that of its file.
  const argv = [cp, '--preserve=timestamps', '--no-target-directory', join(exits.written, id), join(exits.kept, id)];
  return argv.flatMap((word, index) => [index === 0 ? '--exit-command' : '--exit-command-arg', word]);
}

/**
 * Waits until conmon has left the process that was started for the one that stays, and puts that one where monitors are. What the daemon has
 * left in its own cgroup is ended by the next one, so a container must not run before. A first move waits some milliseconds for the
 * kernel, and those that follow soon do not: so neither this one nor the OCI runtime's own hold the creation up.
 */
async function settleMonitor(
  op: Op,
  context: TaskContext,
  request: CreateTaskRequest,
  monitor: ConmonProcess,
): Promise<ProcessKey> {
  await raceSignal(monitor.exited, op.signal);
  await context.faults.reach('make-task/monitor-detached');
  const conmon = await identityInFile(context, bundleFiles(request.bundleDir).conmonPidFile, 'monitor');
  if (context.monitorCgroup !== undefined) await context.cgroups.moveProcess(context.monitorCgroup, conmon.pid);
  await context.faults.reach('make-task/monitor-moved');
  return conmon;
}

/** It opens the log before anything else, and ends where it cannot. */
async function mustNotHaveFailed(op: Op, { logPath }: CreateTaskRequest, monitor: ConmonProcess): Promise<void> {
  const failure = await monitor.failure(op);
  if (failure === undefined) return;
  const kind = isKind(classifyRuntimeError('conmon', 'create', failure), 'ResourceExhausted')
    ? 'ResourceExhausted'
    : 'Internal';
  throw new GantryError(kind, `its monitor conmon ${failure}${logPath === undefined ? '' : ` (log ${logPath})`}`);
}

async function createdPid(
  op: Op,
  request: CreateTaskRequest,
  monitor: ConmonProcess,
  message: SyncMessage | undefined,
): Promise<number> {
  if (message !== undefined && message.data > 0) return message.data;
  const log = await textOf(bundleFiles(request.bundleDir).runtimeLog);
  for (const words of [message?.message, log]) {
    if (words !== undefined && words.trim() !== '') throw classifyRuntimeError(request.runtime.name, 'create', words);
  }
  await mustNotHaveFailed(op, request, monitor);
  throw internal(`${request.runtime.name} create: the monitor ended without a word`);
}

async function identityInFile(context: TaskContext, path: string, what: string): Promise<ProcessKey> {
  const pid = Number((await textOf(path)).trim());
  if (!Number.isSafeInteger(pid) || pid <= 0) throw internal(`the ${what} left no pid in ${path}`);
  return await identityOf(context, pid, what);
}

async function identityOf(context: TaskContext, pid: number, what: string): Promise<ProcessKey> {
  const view = await context.processes.view(pid);
  if (view === undefined) throw internal(`the ${what}'s process ${String(pid)} ended before it could be looked at`);
  return { pid, startTimeTicks: view.startTimeTicks };
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch {
    return '';
  }
}

/** The caller's deadline may have passed: undoing has its own. */
async function undo(op: Op, context: TaskContext, request: CreateTaskRequest, error: unknown): Promise<unknown> {
  try {
    await detached(op.log, context.clock, UNDO_MS, 'undo create', (fresh) =>
      deleteTask(
        fresh,
        context,
        {
          id: request.id,
          bundleDir: request.bundleDir,
          cgroupPath: request.cgroupPath,
          runtime: request.runtime,
        },
        { force: true },
      ),
    );
    // A monitor whose container was killed says 137: that was never this container's exit.
    await forgetExitFile(context.exits, request.id);
    return error;
  } catch (failure) {
    op.log.warn({ containerId: request.id, error: messageOf(failure) }, 'a failed create could not be undone');
    const whole = withContext('create', error);
    return new GantryError(whole.kind, messageOf(error), {
      cause: error,
      details: { ...whole.details, leftBehind: messageOf(failure) },
    });
  }
}
