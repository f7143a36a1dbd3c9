import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { withDeadline, type Op } from '../../lib/abort.ts';
import { messageOf } from '../../lib/errors.ts';
import { CreateContainerRequest } from '../../cri/gen/api.ts';
import { LABEL_AGENT } from '../pods/names.ts';
import { imagesOf, type ImageAnswer } from '../images/image-puller.ts';
import type { NodePod } from '../pods/node-pod.ts';
import type { RuntimeSandbox } from '../pleg/pod-runtime-state.ts';
import type { ContainerStart } from '../sync/compute-pod-actions.ts';
import { ConfigError } from '../sync/config-error.ts';
import { containerConfig, type ContainerConfigInput } from '../sync/container-config.ts';
import { buildEnv, envReferences } from '../sync/env.ts';
import { readReferences } from '../sync/read-references.ts';
import { sandboxConfigOf, userNamespaceOf, writeHostsFile } from './create-sandbox.ts';
import type { WorkerDeps } from './deps.ts';
import { CONFIG_RETRY, CREATE_RETRY, type FailedStarts } from './failed-starts.ts';

export interface StartContext {
  readonly pod: NodePod;
  readonly sandbox: RuntimeSandbox;
  readonly volumePaths: ReadonlyMap<string, string>;
  readonly failedStarts: FailedStarts;
}

export type StartOutcome =
  | { readonly kind: 'started' }
  /** Its image is on its way: containers after it wait, so that they start in order. */
  | { readonly kind: 'pulling' }
  | { readonly kind: 'failed'; readonly reason: string; readonly message: string; readonly retryInMs: number };

const CREATE_TIMEOUT_MS = 120_000;
const START_TIMEOUT_MS = 120_000;

/** Image, environment, create, start: one container. A failure is told, noted for the back-off and answered. */
export async function startContainer(
  op: Op,
  deps: WorkerDeps,
  context: StartContext,
  start: ContainerStart,
): Promise<StartOutcome> {
  const { pod } = context;
  const { container } = start;
  let id = start.createdId;
  if (id === undefined) {
    const images = ensureImages(deps, pod, start);
    if (images.kind !== 'present') return images;
    const startedMs = deps.clock.monotonicMs();
    try {
      id = await create(op, deps, context, start, images);
    } catch (error) {
      if (op.signal.aborted) throw error;
      // The image may have been removed since it was found.
      if (!(error instanceof ConfigError)) deps.images.again(pod.uid, container.name);
      const reason = error instanceof ConfigError ? 'CreateContainerConfigError' : 'CreateContainerError';
      return failed(deps, context, start, { error, reason });
    }
    deps.story.tell({
      pod,
      container: container.name,
      containerId: id,
      what: 'pod.container-created',
      message: `Created container: ${container.name}`,
      why: start.why,
      durationMs: deps.clock.monotonicMs() - startedMs,
      data: { attempt: start.attempt },
      event: { type: 'Normal', reason: 'Created' },
    });
  }
  return await startCreated(op, deps, context, start, id);
}

type Images = Pick<ContainerConfigInput, 'imageRef' | 'imageUser' | 'imageVolumes'>;

/** All of them are looked for side by side. A failure of any is an answer, whatever else is on its way. */
function ensureImages(
  deps: WorkerDeps,
  pod: NodePod,
  { container, attempt }: ContainerStart,
): ({ readonly kind: 'present' } & Images) | Exclude<ImageAnswer, { kind: 'present' }> {
  const answers = imagesOf(pod, container, attempt).map((want) => ({ want, answer: deps.images.ensure(want) }));
  const imageVolumes = new Map<string, string>();
  let own: Omit<Images, 'imageVolumes'> | undefined;
  let pulling = false;
  for (const { want, answer } of answers) {
    if (answer.kind === 'failed') {
      const about = want.volume === undefined ? '' : `volume "${want.volume}": `;
      return { ...answer, message: `${about}${answer.message}` };
    }
    if (answer.kind === 'pulling') pulling = true;
    else if (want.volume !== undefined) imageVolumes.set(want.volume, answer.imageRef);
    else own = { imageRef: answer.imageRef, imageUser: answer.user };
  }
  return pulling || own === undefined ? { kind: 'pulling' } : { kind: 'present', ...own, imageVolumes };
}

async function startCreated(
  op: Op,
  deps: WorkerDeps,
  context: StartContext,
  start: ContainerStart,
  containerId: string,
): Promise<StartOutcome> {
  const { pod, failedStarts } = context;
  const { name } = start.container;
  const startedMs = deps.clock.monotonicMs();
  try {
    await withDeadline(op, deps.clock, START_TIMEOUT_MS, 'StartContainer', (bounded) =>
      deps.runtime.startContainer(bounded, { containerId }),
    );
  } catch (error) {
    if (op.signal.aborted) throw error;
    return failed(deps, context, start, { error, reason: 'RunContainerError', containerId });
  }
  failedStarts.clear(name);
  deps.story.tell({
    pod,
    container: name,
    containerId,
    what: 'pod.container-started',
    message: `Started container ${name}`,
    why: start.why,
    outcome: 'ok',
    durationMs: deps.clock.monotonicMs() - startedMs,
    event: { type: 'Normal', reason: 'Started' },
  });
  return { kind: 'started' };
}

async function create(
  op: Op,
  deps: WorkerDeps,
  context: StartContext,
  start: ContainerStart,
  images: Images,
): Promise<string> {
  const { pod, sandbox } = context;
  const { container } = start;
  const references = await readReferences(op, deps.kube, pod.namespace, envReferences(container));
  const ips = pod.spec.hostNetwork === true ? deps.node.hostIps() : sandbox.ips;
  const facts = {
    nodeName: deps.node.nodeName,
    hostIps: deps.node.hostIps(),
    podIps: ips,
    allocatable: deps.node,
  };
  const env = buildEnv(container, pod, facts, references);
  if (env.skipped.length > 0) {
    deps.story.tell({
      pod,
      container: container.name,
      what: 'pod.env-skipped',
      message: `Keys [${env.skipped.join(', ')}] were skipped since they are not names of environment variables.`,
      event: { type: 'Warning', reason: 'InvalidEnvironmentVariableNames' },
    });
  }
  const logPath = deps.paths.containerLog(container.name, start.attempt);
  await mkdir(dirname(join(deps.paths.logs(pod), logPath)), { recursive: true, mode: 0o755 });
  const userNamespace = await userNamespaceOf(deps, pod);
  const config = containerConfig({
    pod,
    container,
    attempt: start.attempt,
    crashes: start.crashes,
    bootId: deps.bootId,
    env: env.variables,
    imageRef: images.imageRef,
    imageUser: images.imageUser,
    imageVolumes: images.imageVolumes,
    volumePaths: context.volumePaths,
    hostsFile: await writeHostsFile(deps, pod, ips),
    logPath,
    node: { memoryBytes: deps.node.memoryBytes, hugePageSizes: [...deps.node.hugePages.keys()] },
    seccompProfileRoot: deps.seccompProfileRoot,
    features: deps.node.runtimeFeatures(),
    ...(userNamespace === undefined ? {} : { userNamespace }),
  });
  config.labels[LABEL_AGENT] = deps.agentId;
  const sandboxConfig = await sandboxConfigOf(deps, pod, sandbox.attempt);
  const request = CreateContainerRequest.fromPartial({ podSandboxId: sandbox.id, config, sandboxConfig });
  const { containerId } = await withDeadline(op, deps.clock, CREATE_TIMEOUT_MS, 'CreateContainer', (bounded) =>
    deps.runtime.createContainer(bounded, request),
  );
  return containerId;
}

interface Failure {
  readonly error: unknown;
  readonly reason: 'CreateContainerConfigError' | 'CreateContainerError' | 'RunContainerError';
  /** Where it was made before it failed. */
  readonly containerId?: string;
}

function failed(
  deps: WorkerDeps,
  { pod, failedStarts }: StartContext,
  { container, why }: ContainerStart,
  { error, reason, containerId }: Failure,
): StartOutcome {
  const message = messageOf(error);
  const about = { pod, container: container.name, ...(containerId === undefined ? {} : { containerId }) };
  let isNew = true;
  // A start that failed leaves an ended container, whose crash back-off counts.
  if (reason !== 'RunContainerError') {
    const policy = reason === 'CreateContainerConfigError' ? CONFIG_RETRY : CREATE_RETRY;
    isNew = failedStarts.note(container.name, reason, message, policy);
  }
  const event = { type: 'Warning', reason: 'Failed', message: `Error: ${message}` } as const;
  if (isNew)
    deps.story.tell({
      ...about,
      what: 'pod.container-failed',
      message: `${reason}: ${message}`,
      why,
      outcome: 'failed',
      event,
    });
  const retryInMs = failedStarts.view().get(container.name)?.retryInMs ?? 0;
  return { kind: 'failed', reason, message, retryInMs };
}
