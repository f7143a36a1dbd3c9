import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { detached, raceSignal, type Op } from '../../lib/abort.ts';
import { failedPrecondition, internal, invalidArgument, isKind, messageOf, unavailable } from '../../lib/errors.ts';
import { DEFAULT_TERM } from '../oci/command-line.ts';
import { globalOptions } from '../oci/oci-runtime.ts';
import { classifyRuntimeError } from '../oci/runtime-error.ts';
import type { OciProcess, OciSpec } from '../oci/spec.ts';
import { bundleFiles } from './bundle-files.ts';
import { spawnConmon, type ConmonProcess } from './conmon.ts';
import { endsWithin } from './ends-within.ts';
import { leaveExecPlace, newExecPlace, type ExecPlace } from './exec-place.ts';
import type { ExecFds, ExecStdio } from './exec-stdio.ts';
import { isAlive } from './process-end.ts';
import type { TaskContext } from './task-context.ts';
import type { Task } from './task.ts';

/** After a kill everything is over within milliseconds; longer is a process in state D. */
const KILLED_MS = 1_000;

/** What ends itself when its terminal is gone does so at once; a shell passes it on to its jobs first. */
const HANGUP_MS = 2_000;

const CLEAN_UP_MS = 10_000;

export interface ExecCommand {
  readonly argv: readonly string[];
  /** Added to the container's own environment (`NAME=value`). */
  readonly env?: readonly string[];
  /** What the container has by now; it may have been started with another one. */
  readonly oomScoreAdj?: number;
}

/** The command was never started: in the OCI runtime's words, NotFound for a missing one, PermissionDenied for one that may not be run. */
export class NotStarted extends Error {
  override readonly name = 'NotStarted';
  readonly why: Error;

  constructor(why: Error) {
    super(why.message, { cause: why });
    this.why = why;
  }
}

/**
 * Runs a command inside a running container, connected to `stdio`, and returns its exit code. Its exit never touches the container's own
 * exit file. When the op's signal fires, everything it has started is killed, also what has left its session; a command that was told
 * by a hang-up of its terminal ends by itself, if it does so in time.
 * Throws NotStarted; FailedPrecondition when the container does not run; Unavailable when the command's end cannot be learnt.
 */
export async function runExec(
  op: Op,
  context: TaskContext,
  task: Task,
  command: ExecCommand,
  stdio: ExecStdio,
): Promise<number> {
  if (command.argv.length === 0) throw invalidArgument('exec: no command');
  await mustRun(context, task);
  const place = newExecPlace(context, task);
  await mkdir(place.dir, { recursive: true, mode: 0o700 });
  try {
    await context.faults.reach('exec/folder-made');
    const own = await ownProcess(task);
    await writeFile(place.processFile, JSON.stringify(processOf(own, command, stdio)), { mode: 0o600 });
    await context.cgroups.createSubgroup(place.cgroup);
    await context.faults.reach('exec/cgroup-made');
    const begun = (pid: number): Promise<void> => keepOomScore(context, place, own, command, pid);
    return await run(op, context, task, place, stdio, begun);
  } finally {
    // Nobody waits for that. What is still there when we are killed is taken away by the next daemon.
    void cleanUp(op, context, task, place);
  }
}

async function cleanUp({ log }: Op, context: TaskContext, task: Task, place: ExecPlace): Promise<void> {
  try {
    await detached(log, context.clock, CLEAN_UP_MS, 'clean up exec', (fresh) => leaveExecPlace(fresh, context, place));
  } catch (error) {
    log.warn({ containerId: task.id, error: messageOf(error) }, 'an exec left something behind');
  }
}

/** An OCI runtime has many words for a container that ends while something is started in it. */
async function mustRun(context: TaskContext, task: Task): Promise<void> {
  if (!(await isAlive(context.processes, task))) throw failedPrecondition(`exec: task ${task.id} does not run`);
}

async function ownProcess(task: Task): Promise<OciProcess> {
  try {
    return (JSON.parse(await readFile(bundleFiles(task.bundleDir).config, 'utf8')) as OciSpec).process;
  } catch (error) {
    throw internal(`exec: the container's specification cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

/** The container's own process with another command: same user, capabilities, working directory and confinement. */
function processOf(own: OciProcess, command: ExecCommand, { terminal, size }: ExecStdio): OciProcess {
  return {
    ...own,
    terminal,
    ...(command.oomScoreAdj === undefined ? {} : { oomScoreAdj: command.oomScoreAdj }),
    ...(terminal && size !== undefined ? { consoleSize: size } : {}),
    args: command.argv,
    env: environmentOf([...own.env, ...(command.env ?? [])], terminal),
  };
}

/** A container without a terminal has no word for the kind of one; what draws needs one. */
function environmentOf(lines: readonly string[], terminal: boolean): readonly string[] {
  return terminal && lines.every((line) => !line.startsWith('TERM=')) ? [...lines, DEFAULT_TERM] : lines;
}

/**
 * Whatever the process's specification says, runc gives what it executes the value that the container was made with, and crun, or runc where there
 * was none, its monitor's, which is ours. Another one the command has chosen by itself.
 */
async function keepOomScore(
  context: TaskContext,
  place: ExecPlace,
  own: OciProcess,
  { oomScoreAdj }: ExecCommand,
  pid: number,
): Promise<void> {
  if (oomScoreAdj === undefined) return;
  const given = await oomScoreOf(pid);
  if (given === undefined || given === oomScoreAdj) return;
  if (given !== own.oomScoreAdj && given !== (await oomScoreOf('self'))) return;
  await context.cgroups.changeOomScores(place.cgroup, given, oomScoreAdj);
}

/** Undefined: it has ended. */
async function oomScoreOf(pid: number | 'self'): Promise<number | undefined> {
  const text = await readFile(`/proc/${String(pid)}/oom_score_adj`, 'utf8').catch(() => undefined);
  return text === undefined ? undefined : Number(text);
}

async function run(
  op: Op,
  context: TaskContext,
  task: Task,
  place: ExecPlace,
  stdio: ExecStdio,
  begun: (pid: number) => Promise<void>,
): Promise<number> {
  const monitor = await spawnWith(context, task, place, stdio);
  try {
    await context.faults.reach('exec/monitor-spawned');
    const [pid] = await Promise.all([
      startedPid(op, context, task, place, monitor, stdio),
      moveMonitor(context, monitor),
    ]);
    await begun(pid);
    await context.faults.reach('exec/started');
    stdio.started();
    const exitCode = await exitCodeOf(op, monitor, pid);
    await context.faults.reach('exec/ended');
    await stdio.drained(op);
    return exitCode;
  } catch (error) {
    // Timed out, given up, or its monitor is lost: nobody will ever ask for it again. Nothing of it should run any more when
    // the caller is told, but he is not kept waiting for a process in state D.
    const toldToEnd = stdio.hangUp() && (await endsWithin(context.clock, monitor.exited, HANGUP_MS));
    if (!toldToEnd) await endsWithin(context.clock, kill(op, context, task, place, monitor), 2 * KILLED_MS);
    throw error;
  } finally {
    monitor.letGo();
  }
}

/** While it works: a first move waits some milliseconds for the kernel, and the OCI runtime's own, which come soon after, then wait no more. */
async function moveMonitor(context: TaskContext, monitor: ConmonProcess): Promise<void> {
  if (context.monitorCgroup === undefined) return;
  try {
    await context.cgroups.moveProcess(context.monitorCgroup, monitor.pid);
  } catch (error) {
    // Over already: what became of the command comes on the sync pipe.
    if (!isKind(error, 'NotFound')) throw error;
  }
}

async function spawnWith(context: TaskContext, task: Task, place: ExecPlace, stdio: ExecStdio): Promise<ConmonProcess> {
  const fds = await stdio.open(place);
  try {
    return await spawnConmon({
      path: context.conmon,
      args: execArguments(task, place, fds),
      cwd: place.dir,
      stdio: fds,
    });
  } finally {
    fds.closeOurs();
  }
}

/** All that the command has started, and an OCI runtime that has not come to starting it. */
async function kill(op: Op, context: TaskContext, task: Task, place: ExecPlace, monitor: ConmonProcess): Promise<void> {
  try {
    await detached(op.log, context.clock, CLEAN_UP_MS, 'kill exec', async (fresh) => {
      await context.cgroups.killAll(fresh, place.cgroup);
      await endsWithin(context.clock, monitor.exited, KILLED_MS);
      // The runtime, its child, dies with it.
      monitor.child.kill('SIGKILL');
      await raceSignal(monitor.exited, fresh.signal);
      await context.cgroups.killAll(fresh, place.cgroup);
    });
  } catch (error) {
    op.log.warn({ containerId: task.id, error: messageOf(error) }, 'an exec could not be killed');
  }
}

function execArguments(task: Task, place: ExecPlace, fds: ExecFds): string[] {
  return [
    ...['--api-version', '1', '--sync', '--exec'],
    ...['--cid', task.id, '--cuuid', place.cgroupName, '--name', place.cgroupName],
    ...['--runtime', task.runtime.path, '--bundle', place.dir],
    ...['--exec-process-spec', place.processFile, '--container-pidfile', place.pidFile],
    // The command gets our own pipes or a terminal of ours: no log file, no copy, no cut lines, and nothing waits for the monitor.
    // No exit folder: the code comes on the sync pipe.
    ...['--log-path', 'passthrough', '--socket-dir-path', place.dir],
    ...['--log-level', 'error', '--no-sync-log'],
    ...[...globalOptions(task.runtime), `--log=${place.runtimeLog}`, '--log-format=json'].flatMap((word) => [
      '--runtime-arg',
      word,
    ]),
    ...['--cgroup', place.cgroupName, ...fds.runtimeOptions].flatMap((word) => ['--runtime-opt', word]),
  ];
}

async function startedPid(
  op: Op,
  context: TaskContext,
  task: Task,
  place: ExecPlace,
  monitor: ConmonProcess,
  stdio: ExecStdio,
): Promise<number> {
  const started = await monitor.nextMessage(op);
  if (started !== undefined && started.data >= 0) return started.data;
  const log = await readFile(place.runtimeLog, 'utf8').catch(() => '');
  const words = [started?.message ?? '', log, await stdio.words()];
  const said = words.find((text) => text.trim() !== '');
  await mustRun(context, task);
  if (said === undefined) throw unavailable('exec: its monitor is gone before the command was started');
  throw new NotStarted(classifyRuntimeError(task.runtime.name, 'exec', said));
}

async function exitCodeOf(op: Op, monitor: ConmonProcess, pid: number): Promise<number> {
  const ended = await monitor.nextMessage(op);
  if (ended === undefined || ended.data < 0) {
    const why = ended?.message ?? 'its monitor is gone';
    throw unavailable(`exec: how process ${String(pid)} ended cannot be learnt: ${why}`);
  }
  return ended.data;
}
