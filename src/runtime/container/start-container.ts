import { dirname } from 'node:path';
import type { StartContainerRequest, StartContainerResponse } from '../../cri/gen/api.ts';
import { recordStep } from '../../journal/record-step.ts';
import { detached, raceSignal, withDeadline, withLimit, type Op } from '../../lib/abort.ts';
import {
  failedPrecondition,
  GantryError,
  kindOf,
  messageOf,
  notFound,
  unavailable,
  withContext,
  type ErrorKind,
} from '../../lib/errors.ts';
import type { LedgerItem } from '../../lib/ledger.ts';
import type { RuntimeContext } from '../context.ts';
import { MAKING_STEPS } from '../making-steps.ts';
import { surelyTold } from '../names/surely-told.ts';
import { takesContainers } from '../sandbox/state.ts';
import type { ContainerMeta } from '../store/container-record.ts';
import { containerOwner } from '../store/owners.ts';
import type { SandboxRecord } from '../store/sandbox-record.ts';
import type { Task } from '../task/task.ts';
import { releaseAfterExit } from './clean-up-container.ts';
import { durably } from './durably.ts';
import { mountImageVolumes, volumeMounts } from './image-volumes.ts';
import { canStart, describe, transition, type ContainerStatus, type ContainerUser } from './state.ts';
import { armExit, hasCommandRun, lookAtTask } from './start-outcome.ts';
import { subjectOf } from './subject.ts';
import { userNamespacePin } from './user-namespace-pin.ts';

/** Of the whole: when hundreds are started at once, the last one's turn is long in coming, and that is no failure of its own. */
const START_TIMEOUT_MS = 1_800_000;
/** Of what comes before and after the OCI runtime's create, which has a budget of its own. */
const PREPARE_TIMEOUT_MS = 60_000;
const RELEASE_TIMEOUT_MS = 60_000;
const UNDO_TIMEOUT_MS = 60_000;
/** An exit whose process is gone is told within 2 s. */
const EXIT_WAIT_MS = 5_000;
/** Failures of the asking, not of the start. */
const COME_BACK: readonly ErrorKind[] = ['Unavailable', 'DeadlineExceeded', 'Canceled', 'Aborted'];

/** The OCI runtime failed, and whether it had let the command go before could not be found out. */
class StartUndecided extends GantryError {
  constructor(id: string, error: unknown) {
    const message = `container ${id}: whether its start was carried out is not known yet: ${messageOf(error)}`;
    super('Unavailable', message, { cause: error });
  }
}

/**
 * Makes the container's process and lets it run; returns when it is RUNNING, or has already ended. A start that fails leaves
 * EXITED with reason StartError, and the error has the OCI runtime's own words. A call that is repeated meanwhile joins.
 *
 * A caller that leaves (its deadline passes, its connection breaks, we are killed) does not know what became of its start. That nobody was
 * told is kept in the record: the next call for the container, of this daemon or a later one, gets the outcome of the first, also when
 * the container has ended since. Once it has been told, another start is a mistake. In doubt, after a kill between the answer and the note
 * of it, the outcome is told twice.
 * Throws NotFound, FailedPrecondition (not CREATED, or its sandbox is not READY), Unavailable (an earlier start is still looked at).
 */
export async function startContainer(
  op: Op,
  rt: RuntimeContext,
  { containerId }: StartContainerRequest,
): Promise<StartContainerResponse> {
  const id = rt.containers.resolve(containerId);
  const record = id === undefined ? undefined : rt.containers.get(id);
  if (id === undefined || record === undefined || record.status.state.kind === 'creating') {
    throw notFound(`container ${containerId} not found`);
  }
  const run = (laneOp: Op): Promise<void> => startInLane(laneOp, rt, id);
  const started = rt.starts.run(id, () =>
    rt.lanes.enqueue(id, { name: MAKING_STEPS.start, timeoutMs: START_TIMEOUT_MS, run }),
  );
  try {
    await raceSignal(started, op.signal);
    if (surelyTold(op, rt.clock)) rt.toldStarts.add(id);
  } catch (error) {
    // Who is told to come back later has not been told what became of it.
    if (surelyTold(op, rt.clock) && !COME_BACK.includes(kindOf(error))) rt.toldStarts.add(id);
    throw error;
  }
  await rt.faults.reach('start-container/outcome-known');
  return {};
}

/** For the next daemon. The answer does not wait for the disk, but the note for the answer. */
export function noteTold({ containers }: Pick<RuntimeContext, 'containers'>, id: string): void {
  containers.publishFirst(id, (status) => transition(status, { kind: 'start-told' }));
}

async function startInLane(op: Op, rt: RuntimeContext, id: string): Promise<void> {
  const { meta, status } = rt.containers.must(id);
  if (!rt.toldStarts.has(id) && outcomeUntold(id, status) === 'started') return;
  // No start of this process: it would have come to its end before our turn in the lane.
  if (status.state.kind === 'created' && status.start !== undefined) {
    throw unavailable(`container ${id}: whether its start was carried out is not known yet`);
  }
  if (!canStart(status))
    throw failedPrecondition(`container ${id} is ${describe(status)}: only a created one can be started`);
  const sandbox = sandboxFor(rt, meta);
  const words = { what: 'container.start', message: 'container started', step: 'start' };
  try {
    await recordStep(rt, subjectOf(rt, meta), words, async () => {
      await rt.faults.reach('start-container/begun');
      await letRun(op, rt, await makeTask(op, rt, meta, sandbox));
    });
  } catch (error) {
    if (error instanceof StartUndecided) throw error;
    await failStart(rt, meta, error);
    // NotFound would say that there is no such container.
    throw kindOf(error) === 'NotFound'
      ? new GantryError('FailedPrecondition', messageOf(error), { cause: error })
      : error;
  }
}

/** What became of a start that nobody was told of. Throws when it failed. */
function outcomeUntold(id: string, { state, startUntold, removing }: ContainerStatus): 'started' | undefined {
  if (startUntold === undefined || removing !== undefined) return undefined;
  if (state.kind === 'exited' && state.cause.kind === 'start-failed') {
    throw failedPrecondition(`container ${id} could not be started: ${state.cause.message}`);
  }
  return state.kind === 'creating' || state.kind === 'created' ? undefined : 'started';
}

function sandboxFor(rt: RuntimeContext, meta: ContainerMeta): SandboxRecord {
  const sandbox = rt.sandboxes.get(meta.facts.sandboxId);
  if (sandbox === undefined || !takesContainers(sandbox.status)) {
    throw failedPrecondition(`container ${meta.id}: its sandbox ${meta.facts.sandboxId} is not ready`);
  }
  return sandbox;
}

/** What a start acquires, in that order. */
export function startItems(rt: Pick<RuntimeContext, 'paths' | 'specs'>, meta: ContainerMeta): LedgerItem[] {
  const { bundle, rootfs } = rt.paths.container(meta.id);
  return [
    { kind: 'bundle', key: bundle, data: { root: rt.paths.containers }, volatile: false },
    { kind: 'rootfs', key: rootfs, volatile: true },
    ...volumeMounts(rt.paths, meta),
    { kind: 'task', key: meta.id, data: { ...rt.specs.taskTraces(meta) }, volatile: true },
  ];
}

/** Bundle, root file system, monitor and the OCI runtime's create. */
async function makeTask(op: Op, rt: RuntimeContext, meta: ContainerMeta, sandbox: SandboxRecord): Promise<MadeTask> {
  const { id } = meta;
  const owner = containerOwner(id);
  const { rootfs } = rt.paths.container(id);
  await Promise.all([
    rt.ledger.intend(owner, ...startItems(rt, meta)).then(() => rt.faults.reach('start-container/intended')),
    rt.containers
      .update(id, (status) =>
        transition(status, {
          kind: 'start-intended',
          intent: { phase: 'preparing', bootId: rt.bootId, sinceWallMs: rt.clock.wallMs() },
        }),
      )
      .then(() => rt.faults.reach('start-container/intent-recorded')),
  ]);
  // A stop of the sandbox that began before the intent was visible has not seen this container: so it must not start.
  sandboxFor(rt, meta);
  // Passed through by a container whose root is nobody here.
  await rt.folders.make(rootfs, 0o711);
  await rt.faults.reach('start-container/rootfs-folder-made');
  if (meta.facts.logPath !== undefined) await rt.folders.make(dirname(meta.facts.logPath), 0o755);
  await rt.faults.reach('start-container/folders-made');
  await withLimit(op, rt.clock, PREPARE_TIMEOUT_MS, `mounting the root file system of container ${id}`, (limited) =>
    rt.snapshots
      .mount(limited, id, rootfs, userNamespacePin(rt, sandbox.meta.id))
      .then(() => mountImageVolumes(limited, rt, meta)),
  );
  await rt.faults.reach('start-container/rootfs-mounted');
  const what = `preparing the task of container ${id}`;
  const { request, user } = await withLimit(op, rt.clock, PREPARE_TIMEOUT_MS, what, (limited) =>
    rt.specs.task(limited, rt.containers.must(id), sandbox),
  );
  const task = await rt.tasks.create(op, request);
  await rt.faults.reach('start-container/task-made');
  await rt.ledger.hold(owner, 'task', id, { ...task });
  await rt.faults.reach('start-container/task-held');
  return { task, user };
}

interface MadeTask {
  readonly task: Task;
  readonly user: ContainerUser;
}

/** From here on the command may run, so from here on an exit is the command's own. */
async function letRun(op: Op, rt: RuntimeContext, { task, user }: MadeTask): Promise<void> {
  const { id } = task;
  await rt.containers.update(id, (status) =>
    transition(transition(status, { kind: 'task-made', task, user }), { kind: 'task-released' }),
  );
  await rt.faults.reach('start-container/release-recorded');
  armExit(rt, task);
  await rt.faults.reach('start-container/exit-awaited');
  op.signal.throwIfAborted();
  const startedAtWallMs = rt.clock.wallMs();
  try {
    await withLimit(op, rt.clock, RELEASE_TIMEOUT_MS, `starting container ${id}`, (limited) => {
      const starting = rt.tasks.start(limited, task);
      rt.faults.pass('start-container/command-starting');
      return starting;
    });
  } catch (error) {
    await mustHaveRun(op, rt, task, error);
  }
  await rt.faults.reach('start-container/command-started');
  try {
    await rt.containers.update(id, (status) => transition(status, { kind: 'started', startedAtWallMs }));
  } catch (error) {
    // A disk that takes nothing takes nothing new (docs/decisions/0013): what cannot be noted as running does not run on.
    throw withContext('the command was started, and ended again because that could not be written down', error);
  }
  await rt.faults.reach('start-container/started');
}

/**
 * A start that fails may have let the command go before it did. Decided as by recovery; throws `error` when the command has not run, and
 * StartUndecided when that is not known: then recovery goes on asking.
 */
async function mustHaveRun(op: Op, rt: RuntimeContext, task: Task, error: unknown): Promise<void> {
  const { id } = task;
  const hasEnded = (): boolean => rt.containers.get(id)?.status.state.kind === 'exited';
  // Started and over before the OCI runtime could look at it: the exit that was told is the command's.
  if (hasEnded()) return;
  // The caller's time may be over: whether the command runs is to be known all the same.
  const own: Op = { ...op, signal: rt.background.signal };
  const found = await lookAtTask(own, rt, task, true);
  const ran = hasEnded() || hasCommandRun(found);
  const fields = { containerId: id, error: messageOf(error), process: found.process };
  if (ran === undefined) {
    rt.retries.fail(id, { kind: 'recovery', of: 'container' }, error);
    throw new StartUndecided(id, error);
  }
  if (!ran) throw error;
  rt.log.warn(fields, 'the OCI runtime said that a start failed, and the command has run');
  if (found.process !== 'gone') return;
  // Else it would be shown as running for a moment, which it does not any more.
  await withDeadline(own, rt.clock, EXIT_WAIT_MS, `hearing how container ${id} ended`, (limited) =>
    rt.containers.waitFor(limited, id, hasEnded),
  ).catch(() => undefined);
}

/** EXITED, StartError, with what the start had taken released. */
async function failStart(rt: RuntimeContext, meta: ContainerMeta, error: unknown): Promise<void> {
  const { id } = meta;
  rt.faults.pass('undo-start/begun');
  rt.exits.letGo(id);
  try {
    // On disk before the process is taken away: else a start that was released and no process are found, as if it had run.
    await durably(rt.containers, id, (status) =>
      transition(status, { kind: 'start-failed', message: messageOf(error), atWallMs: rt.clock.wallMs() }),
    );
    await rt.faults.reach('undo-start/recorded');
    await detached(rt.log, rt.clock, UNDO_TIMEOUT_MS, `undoing the start of ${id}`, (op) =>
      releaseAfterExit(op, rt, id),
    );
    await rt.faults.reach('undo-start/released');
  } catch (undoError) {
    rt.retries.fail(id, { kind: 'container-cleanup' }, undoError);
  }
}
