import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EXEC_OUTPUT_CAP_BYTES } from '../../cri/exec-output-cap.ts';
import { childSignal, detached, raceSignal, type Op } from '../../lib/abort.ts';
import { errnoOf, failedPrecondition, internal, invalidArgument, messageOf, unavailable } from '../../lib/errors.ts';
import { unlinkIfThere } from '../../lib/may-be-gone.ts';
import { classifyRuntimeError } from '../oci/runtime-error.ts';
import type { OciProcess, OciSpec } from '../oci/spec.ts';
import { bundleFiles } from './bundle-files.ts';
import { CappedOutput } from './capped-output.ts';
import { spawnConmon, type ConmonProcess } from './conmon.ts';
import { isAlive } from './process-end.ts';
import type { TaskContext } from './task-context.ts';
import type { ExecOutcome, ExecRequest, Task } from './task.ts';

/** A background process that the command left holds the pipes open: what came until then is the output. */
const DRAIN_MS = 250;

/** After a kill everything is over within milliseconds; longer is a process in state D. */
const KILLED_MS = 1_000;

const CLEAN_UP_MS = 10_000;

/** With which the names of the cgroups of execs begin. */
export const EXEC_PREFIX = 'exec-';

interface ExecPlace {
  readonly dir: string;
  readonly processFile: string;
  readonly pidFile: string;
  readonly runtimeLog: string;
  /** Below the container's own cgroup: so that a timeout finds all that the command has started. */
  readonly cgroup: string;
  readonly cgroupName: string;
}

/**
 * Runs a command inside a running container. Its exit never touches the container's own exit file. When its time is up
 * or the caller leaves, everything it has started is killed, also what has left its session.
 * Throws DeadlineExceeded then; NotFound for a missing command; FailedPrecondition when the container does not run;
 * Unavailable when the command's end cannot be learnt.
 */
export async function execInTask(op: Op, context: TaskContext, task: Task, request: ExecRequest): Promise<ExecOutcome> {
  if (request.argv.length === 0) throw invalidArgument('exec: no command');
  await mustRun(context, task);
  const place = placeOf(context, task);
  const timeoutMs = request.timeoutMs ?? 0;
  using child = childSignal(
    op.signal,
    timeoutMs > 0 ? { clock: context.clock, timeoutMs, what: `exec ${request.argv[0] ?? ''}` } : undefined,
  );
  await mkdir(place.dir, { recursive: true, mode: 0o700 });
  try {
    await writeFile(place.processFile, JSON.stringify(await processOf(task, request)), { mode: 0o600 });
    await context.cgroups.createSubgroup(place.cgroup);
    return await run({ ...op, signal: child.signal }, context, task, place);
  } finally {
    await detached(op.log, context.clock, CLEAN_UP_MS, 'clean up exec', (fresh) =>
      cleanUp(fresh, context, place),
    ).catch((error: unknown) => {
      op.log.warn({ containerId: task.id, error: messageOf(error) }, 'an exec left something behind');
    });
  }
}

/** An OCI runtime has many words for a container that ends while something is started in it. */
async function mustRun(context: TaskContext, task: Task): Promise<void> {
  if (!(await isAlive(context.processes, task))) throw failedPrecondition(`exec: task ${task.id} does not run`);
}

function placeOf(context: TaskContext, task: Task): ExecPlace {
  const cgroupName = `${EXEC_PREFIX}${randomBytes(6).toString('hex')}`;
  const dir = join(context.execDir, cgroupName);
  return {
    dir,
    processFile: join(dir, 'process.json'),
    pidFile: join(dir, 'pid'),
    runtimeLog: join(dir, 'runtime.log'),
    cgroup: `${task.cgroupPath}/${cgroupName}`,
    cgroupName,
  };
}

/** The container's own process with another command: same user, capabilities, working directory and confinement. */
async function processOf(task: Task, request: ExecRequest): Promise<OciProcess> {
  let spec: OciSpec;
  try {
    spec = JSON.parse(await readFile(bundleFiles(task.bundleDir).config, 'utf8')) as OciSpec;
  } catch (error) {
    throw internal(`exec: the container's specification cannot be read: ${messageOf(error)}`, { cause: error });
  }
  const own = spec.process;
  return {
    ...own,
    terminal: request.tty === true,
    args: request.argv,
    env: [...own.env, ...(request.env ?? [])],
  };
}

async function run(op: Op, context: TaskContext, task: Task, place: ExecPlace): Promise<ExecOutcome> {
  using stdout = new CappedOutput(EXEC_OUTPUT_CAP_BYTES);
  using stderr = new CappedOutput(EXEC_OUTPUT_CAP_BYTES);
  const monitor = await spawnWith(context, task, place, stdout, stderr);
  try {
    if (context.monitorCgroup !== undefined) await context.cgroups.moveProcess(context.monitorCgroup, monitor.pid);
    monitor.release();
    const exitCode = await exitOf(op, context, task, place, monitor, stderr);
    await settled(context, Promise.all([stdout.ended, stderr.ended]), DRAIN_MS);
    return {
      exitCode,
      stdout: stdout.bytes(),
      stderr: stderr.bytes(),
      truncated: stdout.truncated || stderr.truncated,
    };
  } catch (error) {
    // Timed out, given up, or its monitor is lost: nobody will ever ask for it again. Nothing of it should run any more when
    // the caller is told, but he is not kept waiting for a process in state D.
    await settled(context, kill(op, context, task, place, monitor), 2 * KILLED_MS);
    throw error;
  } finally {
    monitor.letGo();
  }
}

async function spawnWith(
  context: TaskContext,
  task: Task,
  place: ExecPlace,
  stdout: CappedOutput,
  stderr: CappedOutput,
): Promise<ConmonProcess> {
  const pipes = [stdout.pipe(), stderr.pipe()] as const;
  try {
    return await spawnConmon({
      path: context.conmon,
      args: execArguments(task, place),
      cwd: place.dir,
      output: { stdout: pipes[0].writeFd, stderr: pipes[1].writeFd },
    });
  } finally {
    for (const pipe of pipes) pipe.closeWriter();
  }
}

/** All that the command has started, and an OCI runtime that has not come to starting it. */
async function kill(op: Op, context: TaskContext, task: Task, place: ExecPlace, monitor: ConmonProcess): Promise<void> {
  try {
    await detached(op.log, context.clock, CLEAN_UP_MS, 'kill exec', async (fresh) => {
      await context.cgroups.killAll(fresh, place.cgroup);
      await settled(context, monitor.exited, KILLED_MS);
      // The runtime, its child, dies with it.
      monitor.child.kill('SIGKILL');
      await raceSignal(monitor.exited, fresh.signal);
      await context.cgroups.killAll(fresh, place.cgroup);
    });
  } catch (error) {
    op.log.warn({ containerId: task.id, error: messageOf(error) }, 'an exec could not be killed');
  }
}

function execArguments(task: Task, place: ExecPlace): string[] {
  return [
    ...['--api-version', '1', '--sync', '--exec'],
    ...['--cid', task.id, '--cuuid', place.cgroupName, '--name', place.cgroupName],
    ...['--runtime', task.runtime.path, '--bundle', place.dir],
    ...['--exec-process-spec', place.processFile, '--container-pidfile', place.pidFile],
    // The command gets our own pipes: no log file, no copy, no cut lines. No exit folder: the code comes on the sync pipe.
    ...['--log-path', 'passthrough', '--socket-dir-path', place.dir],
    ...['--log-level', 'error', '--no-sync-log'],
    ...['--runtime-arg', `--root=${task.runtime.root}`],
    ...['--runtime-arg', `--log=${place.runtimeLog}`, '--runtime-arg', '--log-format=json'],
    ...['--runtime-opt', '--cgroup', '--runtime-opt', place.cgroupName],
  ];
}

async function exitOf(
  op: Op,
  context: TaskContext,
  task: Task,
  place: ExecPlace,
  monitor: ConmonProcess,
  stderr: CappedOutput,
): Promise<number> {
  const started = await monitor.nextMessage(op);
  if (started === undefined || started.data < 0) {
    const log = await readFile(place.runtimeLog, 'utf8').catch(() => '');
    const words = [started?.message ?? '', log, Buffer.from(stderr.bytes()).toString('utf8')];
    const said = words.find((text) => text.trim() !== '');
    await mustRun(context, task);
    if (said === undefined) throw unavailable('exec: its monitor is gone before the command was started');
    throw classifyRuntimeError(task.runtime.name, 'exec', said);
  }
  const ended = await monitor.nextMessage(op);
  if (ended === undefined || ended.data < 0) {
    throw unavailable(
      `exec: how process ${started.data} ended cannot be learnt: ${ended?.message ?? 'its monitor is gone'}`,
    );
  }
  return ended.data;
}

/** Waits for a promise, but not longer than that. */
async function settled(context: TaskContext, promise: Promise<unknown>, longestMs: number): Promise<void> {
  using limit = childSignal(undefined, { clock: context.clock, timeoutMs: longestMs, what: 'wait' });
  await raceSignal(promise, limit.signal).catch(() => undefined);
}

async function cleanUp(op: Op, context: TaskContext, place: ExecPlace): Promise<void> {
  await removeExecDir(op, context, place.dir);
  // What the command has left in the background keeps its cgroup, which then goes with the container's own.
  if ((await context.cgroups.procs(place.cgroup, true)).length > 0) return;
  await context.cgroups.removeSubgroup(op, place.cgroup, EXEC_PREFIX);
}

export async function removeExecDir(op: Op, context: TaskContext, dir: string): Promise<void> {
  for (let pauseMs = 1; ; pauseMs *= 2) {
    // Not by name: a runtime that was killed leaves half-written files.
    for (const name of await readdir(dir)) await unlinkIfThere(join(dir, name));
    try {
      await rmdir(dir);
      return;
    } catch (error) {
      if (errnoOf(error) !== 'ENOTEMPTY') throw error;
      await context.clock.sleep(pauseMs, op.signal);
    }
  }
}
