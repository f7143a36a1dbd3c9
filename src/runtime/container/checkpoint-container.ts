import { randomBytes } from 'node:crypto';
import { dirname, isAbsolute, join } from 'node:path';
import { demandNoNul } from '../../cri/field-checks.ts';
import type { CheckpointContainerRequest, CheckpointContainerResponse } from '../../cri/gen/api.ts';
import { recordStep } from '../../journal/record-step.ts';
import { raceSignal, withLimit, type Op } from '../../lib/abort.ts';
import { invalidArgument } from '../../lib/errors.ts';
import type { LedgerEntry } from '../../lib/ledger.ts';
import { settleAll } from '../../lib/settle-all.ts';
import type { RuntimeContext } from '../context.ts';
import { containerOwner } from '../store/owners.ts';
import { layOut, place, writeDocuments, type CheckpointPlace } from './checkpoint-files.ts';
import { runningContainer, type RunningContainer } from './running-container.ts';
import { taskOf } from './state.ts';
import { subjectOf } from './subject.ts';

/** CRI leaves the default to the runtime. Memory is written at some hundred MB a second. */
const DEFAULT_TIMEOUT_MS = 600_000;
/** The ledger's name of a folder that a checkpoint is made in; a container holds no other kind of folder. */
const KIND = 'directory';

/**
 * Writes a running container's memory and open files, by CRIU, and what it has changed in its image as one archive to `location`, in the form of
 * Kubernetes' forensic checkpoints (docs/decisions/0027). The container goes on; its files are read right after its memory was, while it runs.
 * The archive is there whole or not at all. The work outlives its caller: a repeated call for the same location joins it. `timeout` is in seconds
 * (0: ten minutes).
 * Throws NotFound, InvalidArgument (the location is no path, or no absolute one), FailedPrecondition (does not run; CRIU cannot, in its words),
 * NotImplemented (no CRIU on this host), DeadlineExceeded.
 */
export async function checkpointContainer(
  op: Op,
  rt: RuntimeContext,
  { containerId, location, timeout }: CheckpointContainerRequest,
): Promise<CheckpointContainerResponse> {
  const container = runningContainer(rt, containerId, 'it cannot be checkpointed');
  demandNoNul(location, 'location');
  if (!isAbsolute(location)) {
    throw invalidArgument(`CheckpointContainer: location ${JSON.stringify(location)} is no absolute path`);
  }
  const made = rt.checkpoints.run(`${container.id} ${location}`, () => recorded(rt, container, location));
  const timeoutMs = timeout > 0n ? Number(timeout) * 1000 : DEFAULT_TIMEOUT_MS;
  await withLimit(op, rt.clock, timeoutMs, 'the checkpoint', ({ signal }) => raceSignal(made, signal));
  return {};
}

/**
 * Takes away what an earlier daemon was making when it was killed, and lets the container run if CRIU was killed while it stood still. What is
 * made now stays: a recovery may come late.
 */
export async function endCheckpoint(op: Op, rt: RuntimeContext, id: string): Promise<void> {
  const owner = containerOwner(id);
  const isEarlier = ({ kind, key }: LedgerEntry): boolean => kind === KIND && !rt.checkpointFolders.has(key);
  if (!rt.ledger.entriesOf(owner).some(isEarlier)) return;
  const task = taskOf(rt.containers.must(id).status);
  if (task !== undefined) await rt.cgroups.thaw(op, task.cgroupPath);
  await rt.ledger.release(op, owner, rt.releasers, isEarlier);
}

async function recorded(rt: RuntimeContext, container: RunningContainer, location: string): Promise<void> {
  const words = { what: 'container.checkpoint', message: `checkpoint written to ${location}`, step: 'checkpoint' };
  await recordStep(rt, subjectOf(rt, container.meta), words, () => make(rt, container, location));
}

async function make(rt: RuntimeContext, { id, meta, task }: RunningContainer, location: string): Promise<void> {
  const op = rt.background;
  const owner = containerOwner(id);
  const root = dirname(location);
  // Beside the archive: whoever chose that disk has room there, and from there it can be given its name in one step.
  const folder = join(root, `.checkpoint-${id.slice(0, 12)}-${randomBytes(6).toString('hex')}`);
  rt.checkpointFolders.add(folder);
  try {
    // Nobody lets the container run in the middle of it.
    await endCheckpoint(op, rt, id);
    await rt.ledger.intend(owner, { kind: KIND, key: folder, volatile: false, data: { root } });
    await rt.faults.reach('checkpoint/intended');
    const files: CheckpointPlace = await layOut(folder);
    await rt.faults.reach('checkpoint/folders-made');
    await settleAll([rt.tasks.checkpoint(op, task, files), Promise.resolve(rt.faults.reach('checkpoint/dumping'))]);
    await rt.faults.reach('checkpoint/dumped');
    await rt.snapshots.saveChanges(op, id, files.changes);
    await rt.faults.reach('checkpoint/changes-saved');
    await writeDocuments(files, { meta, task, status: rt.containers.must(id).status, nowMs: rt.clock.wallMs() });
    await rt.faults.reach('checkpoint/described');
    await rt.snapshots.pack(op, files.content, files.archive);
    await rt.faults.reach('checkpoint/packed');
    await place(files.archive, location);
    await rt.faults.reach('checkpoint/placed');
  } finally {
    await rt.ledger.release(op, owner, rt.releasers, ({ kind, key }) => kind === KIND && key === folder);
    rt.checkpointFolders.delete(folder);
  }
  await rt.faults.reach('checkpoint/folder-removed');
}
