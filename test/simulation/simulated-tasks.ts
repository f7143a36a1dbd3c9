import type { Op } from '../../src/lib/abort.ts';
import type { Clock } from '../../src/lib/clock.ts';
import { deadlineExceeded, failedPrecondition, unavailable } from '../../src/lib/errors.ts';
import type { OciState } from '../../src/runtime/oci/spec.ts';
import type { DeleteOptions, TaskRemains } from '../../src/runtime/task/delete-task.ts';
import type { Tasks } from '../../src/runtime/task/task-service.ts';
import type { Task } from '../../src/runtime/task/task.ts';
import { SIGKILL } from '../../src/linux/signals.ts';
import type { Asked, Life, Schedule } from './schedule.ts';
import type { World } from './world.ts';

const KILL_WAIT_MS = 10_000;
const MONITOR_WAIT_MS = 2_000;
const LAST_WORD_WAIT_MS = 60_000;
const UNDO_MS = 60_000;
const LOOK_MS = 100;

export const SIM_RUNTIME = { name: 'crun', path: '/usr/bin/crun', root: '/sim/run/oci-crun' };

/** Told when the OCI runtime is asked to take a container away. */
export type OnDelete = (id: string) => void;

/** Monitors and OCI runtime as the task service shows them, over the simulated machine. */
export function simulatedTasks(
  { world, schedule, life, clock }: { world: World; schedule: Schedule; life: Life; clock: Clock },
  onDelete: OnDelete,
): Tasks {
  const ask = <T>(what: string, subject: string, op: Op | undefined, effect: () => T): Promise<T> => {
    const asked: Asked = op === undefined ? { what, subject } : { what, subject, signal: op.signal };
    return schedule.ask(life, asked, effect);
  };
  /** Waits in the daemon, as its own loop does. */
  const until = async (op: Op, done: () => boolean, timeoutMs: number): Promise<boolean> => {
    const endMs = clock.monotonicMs() + timeoutMs;
    for (;;) {
      if (await ask('look', '', op, done)) return true;
      if (clock.monotonicMs() >= endMs) return false;
      await clock.sleep(LOOK_MS, op.signal);
    }
  };
  const remove = async (op: Op, task: TaskRemains, { force, exitUnknown }: DeleteOptions): Promise<void> => {
    const { id } = task;
    const bodyOf = (): ReturnType<World['bodies']['get']> => world.bodies.get(id);
    await ask('delete: processes', id, op, () => {
      onDelete(id);
      const body = bodyOf();
      // A create that was cut off may still be at work.
      if (task.conmonPid === undefined && body?.monitor?.alive === true) world.signal(body.monitor, SIGKILL);
      if (body?.init?.alive !== true) return;
      if (force !== true) throw failedPrecondition(`task ${id}: must be stopped before deletion`);
      world.killAll(task.cgroupPath);
    });
    if (!(await until(op, () => bodyOf()?.init?.alive !== true, KILL_WAIT_MS))) {
      throw deadlineExceeded(`task ${id}: does not die of SIGKILL`);
    }
    await ask('delete: oci', id, op, () => undefined);
    const monitorGone = (): boolean => bodyOf()?.monitor?.alive !== true;
    const maySpeak = (): boolean => exitUnknown === true && bodyOf()?.monitor?.stopped !== true;
    if (
      !(await until(op, monitorGone, MONITOR_WAIT_MS)) &&
      !(maySpeak() && (await until(op, monitorGone, LAST_WORD_WAIT_MS)))
    ) {
      await ask('delete: monitor', id, op, () => {
        const monitor = bodyOf()?.monitor;
        if (monitor !== undefined) world.signal(monitor, SIGKILL);
      });
    }
    await ask('delete: cgroup', id, op, () => {
      world.forget(id);
      world.removeCgroup(task.cgroupPath);
    });
  };
  return {
    create: async (op, request) => {
      const { id, bundleDir, cgroupPath } = request;
      try {
        await ask('create: monitor', id, op, () => world.beginCreate(id, cgroupPath));
        const body = await ask('create', id, op, () => world.finishCreate(id));
        if (body.init === undefined || body.monitor === undefined) throw unavailable('half-made');
        return {
          id,
          pid: body.init.pid,
          startTimeTicks: body.init.startTimeTicks,
          conmonPid: body.monitor.pid,
          conmonStartTimeTicks: body.monitor.startTimeTicks,
          bundleDir,
          cgroupPath,
          terminal: false,
          runtime: SIM_RUNTIME,
        };
      } catch (error) {
        const limit = new AbortController();
        const timer = clock.after(UNDO_MS, () => limit.abort(deadlineExceeded('undo create')));
        const fresh = { ...op, signal: limit.signal };
        try {
          await remove(fresh, { id, bundleDir, cgroupPath, runtime: SIM_RUNTIME }, { force: true });
          await ask('forget exit', '', fresh, () => world.exitFiles.delete(id));
        } catch {
          // As the real one: what is left behind is in the ledger.
        } finally {
          timer.cancel();
        }
        throw error;
      }
    },
    start: (op, task) => {
      if (!life.dead) world.truthOf(task.id).startAsked = true;
      return ask('start', task.id, op, () => world.start(task.id));
    },
    state: (op, task) => ask('state', task.id, op, () => stateOf(world, task)),
    signal: (op, task, signal) => ask('signal', task.id, op, () => world.signal(task, signal)),
    killAll: (op, task) => ask('kill all', task.id, op, () => world.killAll(task.cgroupPath)),
    delete: (op, task, options) => remove(op, task, options ?? {}),
    exec: () => Promise.reject(unavailable('nothing is executed here')),
    streamExec: () => Promise.reject(unavailable('nothing is executed here')),
    attach: () => Promise.reject(unavailable('nobody is attached here')),
    checkpoint: () => Promise.reject(unavailable('nothing is checkpointed here')),
    sweepExecs: () => Promise.resolve(0),
    reopenLog: () => Promise.reject(unavailable('there are no logs here')),
    readExit: (id) => ask('read exit', id, undefined, () => world.exitFiles.get(id)),
    forgetExit: (id) =>
      ask('forget exit', id, undefined, () => {
        world.exitFiles.delete(id);
      }),
  };
}

function stateOf(world: World, task: Task): OciState | undefined {
  const body = world.bodies.get(task.id);
  if (body === undefined || body.state === 'creating') return undefined;
  const pid = body.init?.alive === true ? body.init.pid : 0;
  return { id: task.id, status: body.state, pid, bundle: task.bundleDir };
}
