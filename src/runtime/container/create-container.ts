import { join } from 'node:path';
import { ContainerConfig, type CreateContainerRequest, type CreateContainerResponse } from '../../cri/gen/api.ts';
import { recordStep } from '../../journal/record-step.ts';
import { raceSignal, type Op } from '../../lib/abort.ts';
import { failedPrecondition, invalidArgument, notFound } from '../../lib/errors.ts';
import { newContainerId } from '../../lib/ids.ts';
import { settleAll } from '../../lib/settle-all.ts';
import { demandRoom } from '../../lib/store/disk-room.ts';
import { taskCgroup } from '../cgroup-layout.ts';
import type { RuntimeContext } from '../context.ts';
import { checkResources } from '../limits/check-resources.ts';
import { MAKING_STEPS } from '../making-steps.ts';
import { stageOf } from '../names/stage-of.ts';
import { surelyTold } from '../names/surely-told.ts';
import { takesContainers } from '../sandbox/state.ts';
import type { ContainerFacts, ContainerMeta } from '../store/container-record.ts';
import { containerOwner } from '../store/owners.ts';
import { cgroupDriverOf, type SandboxRecord } from '../store/sandbox-record.ts';
import { checkAgainstSandbox, checkContainerConfig } from './check-config.ts';
import { decideImageVolumes, makeImageVolumes } from './image-volumes.ts';
import { newContainerStatus, transition } from './state.ts';
import { effectiveStopSignal } from './stop-signal.ts';
import { subjectOf } from './subject.ts';
import { undoCreate } from './undo-create.ts';

/** An overlay's two folders take no time; a disk under pressure takes some. */
const CREATE_TIMEOUT_MS = 120_000;

/**
 * Makes the record and the writable layer. Nothing runs yet: the OCI runtime's create belongs to StartContainer. A repeated
 * call joins the one that runs, or gets what it made; what fails is undone.
 * Throws NotFound (sandbox, image), FailedPrecondition (sandbox not READY), InvalidArgument, AlreadyExists,
 * ResourceExhausted (full disk).
 */
export async function createContainer(
  op: Op,
  rt: RuntimeContext,
  { podSandboxId, config }: CreateContainerRequest,
): Promise<CreateContainerResponse> {
  if (config === undefined) throw invalidArgument('CreateContainer: no configuration');
  checkContainerConfig(config);
  const sandbox = sandboxOf(rt, podSandboxId);
  checkAgainstSandbox(config, sandbox.meta.config);
  const id = newContainerId();
  const meta: ContainerMeta = { id, config, facts: decideFacts(rt, sandbox, id, config) };
  // Everything about the configuration that can be wrong is found now and not at the start.
  await checkResources(config.linux?.resources, rt.cgroups, 'linux.resources.');
  const notGiven = await rt.specs.check(op, meta, sandbox.meta);
  const fingerprint = fingerprintOf(config);
  const made = rt.containerNames.reserve({
    name: meta.facts.name,
    id,
    fingerprint,
    make: async () => {
      await demandRoom(rt.room, 'no new container is made');
      const run = (laneOp: Op): Promise<string> => makeContainer(laneOp, rt, meta);
      const createdId = await rt.lanes.enqueue(id, { name: MAKING_STEPS.container, timeoutMs: CREATE_TIMEOUT_MS, run });
      for (const words of notGiven) {
        const message = `asked for and not given: ${words}`;
        rt.journal.record({ subject: subjectOf(rt, meta), what: 'container.not-given', message, outcome: 'ok' });
      }
      return createdId;
    },
    keepsName: (given) => rt.containers.get(given) !== undefined,
    reuse: (given) => reusable(rt, given, fingerprint),
    describe: (given) => stageOf(rt.clock, rt.containers.get(given)),
  });
  const containerId = await raceSignal(made, op.signal);
  if (surelyTold(op, rt.clock)) rt.answered.add(containerId);
  return { containerId };
}

function fingerprintOf(config: ContainerConfig): string {
  return Buffer.from(ContainerConfig.encode(config).finish()).toString('base64');
}

/** CREATED, untouched, and its maker never got an answer. */
function reusable(rt: RuntimeContext, id: string, fingerprint: string): string | undefined {
  const record = rt.containers.get(id);
  if (record === undefined || rt.answered.has(id)) return undefined;
  const { state, start, removing } = record.status;
  if (state.kind !== 'created' || start !== undefined || removing !== undefined) return undefined;
  return fingerprintOf(record.meta.config) === fingerprint ? id : undefined;
}

function sandboxOf(rt: RuntimeContext, podSandboxId: string): SandboxRecord {
  const id = rt.sandboxes.resolve(podSandboxId);
  const sandbox = id === undefined ? undefined : rt.sandboxes.get(id);
  if (sandbox === undefined || sandbox.status.state.kind === 'starting')
    throw notFound(`sandbox ${podSandboxId} not found`);
  if (!takesContainers(sandbox.status)) throw failedPrecondition(`sandbox ${podSandboxId} is not ready`);
  return sandbox;
}

function decideFacts(rt: RuntimeContext, sandbox: SandboxRecord, id: string, config: ContainerConfig): ContainerFacts {
  const { metadata } = config;
  if (metadata === undefined || metadata.name === '')
    throw invalidArgument('the container configuration has no metadata.name');
  const reference = config.image?.image ?? '';
  if (reference === '') throw invalidArgument('the container configuration has no image');
  const image = rt.images.find(reference);
  if (image === undefined) throw notFound(`image ${reference} is not here: pull it first`);
  const { repoTags, repoDigests, stopSignal, ...kept } = image;
  const { logDirectory } = sandbox.meta.config;
  const imageVolumes = decideImageVolumes(rt.images, config.mounts);
  return {
    name: `${sandbox.meta.id}/${metadata.name}/${String(metadata.attempt)}`,
    sandboxId: sandbox.meta.id,
    image: { ...kept, shown: repoTags[0] ?? reference, ref: repoDigests[0] ?? image.id },
    ...(imageVolumes.length === 0 ? {} : { imageVolumes }),
    stopSignal: effectiveStopSignal(config.stopSignal, stopSignal),
    cgroupPath: taskCgroup(sandbox.meta.facts.cgroupPath, cgroupDriverOf(sandbox.meta.facts), rt.settings, id),
    ...(logDirectory === '' || config.logPath === '' ? {} : { logPath: join(logDirectory, config.logPath) }),
  };
}

async function makeContainer(op: Op, rt: RuntimeContext, meta: ContainerMeta): Promise<string> {
  const { id, facts } = meta;
  const words = { what: 'container.create', message: `container created from ${facts.image.shown}`, step: 'creation' };
  try {
    await recordStep(rt, subjectOf(rt, meta), words, async () => {
      await rt.faults.reach('create-container/begun');
      const owner = containerOwner(id);
      await settleAll([
        rt.containers
          .insert(meta, newContainerStatus(rt.clock.wallMs()))
          .then(() => rt.faults.reach('create-container/recorded')),
        rt.ledger
          .intend(owner, { kind: 'snapshot', key: id, volatile: false })
          .then(() => rt.faults.reach('create-container/intended')),
      ]);
      const idMappings = rt.sandboxes.get(facts.sandboxId)?.meta.facts.idMappings;
      await rt.snapshots.prepare(op, id, facts.image.diffIds, idMappings);
      await rt.faults.reach('create-container/snapshot-made');
      await makeImageVolumes(op, rt, meta);
      op.signal.throwIfAborted();
      // The world may have changed meanwhile: a stop does not see a container that is still being made.
      const now = rt.sandboxes.get(facts.sandboxId);
      if (now === undefined || !takesContainers(now.status)) {
        throw failedPrecondition(`sandbox ${facts.sandboxId} is not ready any more`);
      }
      // With one commit.
      await settleAll<unknown>([
        rt.ledger.hold(owner, 'snapshot', id).then(() => rt.faults.reach('create-container/snapshot-held')),
        rt.containers.update(id, (status) => transition(status, { kind: 'created' })),
      ]);
      await rt.faults.reach('create-container/created');
    });
    return id;
  } catch (error) {
    await undoCreate(rt, id, error);
    throw error;
  }
}
