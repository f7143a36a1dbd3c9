import { mkdir } from 'node:fs/promises';
import { withDeadline, type Op } from '../../lib/abort.ts';
import { failedPrecondition, messageOf } from '../../lib/errors.ts';
import { keepFile } from '../../lib/atomic-file.ts';
import { RunPodSandboxRequest, type PodSandboxConfig } from '../../cri/gen/api.ts';
import type { IdMapping } from '../../linux/id-mappings.ts';
import type { NodePod } from '../pods/node-pod.ts';
import { LABEL_AGENT } from '../pods/names.ts';
import { dnsConfig } from '../sync/dns.ts';
import { hostnameOf, hostsFile } from '../sync/hosts-file.ts';
import { sandboxConfig } from '../sync/sandbox-config.ts';
import type { WorkerDeps } from './deps.ts';

/** CNI plug-ins and image pulls of a runtime that needs a pause image take their time. */
const RUN_SANDBOX_TIMEOUT_MS = 240_000;

/**
 * The request that made (or makes) the sandbox of this attempt: CreateContainer wants to see it again. Throws FailedPrecondition where the
 * pod asks for a user namespace and the runtime has none.
 */
export async function sandboxConfigOf(deps: WorkerDeps, pod: NodePod, attempt: number): Promise<PodSandboxConfig> {
  const { host, upstream } = await deps.node.hostDns();
  const userNamespace = await userNamespaceOf(deps, pod);
  const config = sandboxConfig({
    pod,
    attempt,
    logDirectory: deps.paths.logs(pod),
    dns: dnsConfig(pod.spec, host, upstream),
    cgroupParent: deps.podCgroup(pod.uid),
    ...(userNamespace === undefined ? {} : { userNamespace }),
  });
  config.labels[LABEL_AGENT] = deps.agentId;
  return config;
}

/** The ids on the host of the pod's users; undefined: it has the host's users. Throws FailedPrecondition where the runtime cannot. */
export async function userNamespaceOf(deps: WorkerDeps, pod: NodePod): Promise<IdMapping | undefined> {
  if (pod.spec.hostUsers !== false) return undefined;
  // One that does not know the question would leave it out, and root inside would be root outside.
  if (!deps.node.runtimeFeatures().userNamespaces) {
    throw failedPrecondition(
      `hostUsers: false needs user namespaces, and the runtime (${deps.node.runtimeName()}) does not have them: its OCI runtime must be runc 1.2, crun 1.9 or later, on a kernel that maps the layers of images`,
    );
  }
  return await deps.userNamespaces.of(pod.uid);
}

/** Makes the pod's sandbox. Throws after having told why it cannot. */
export async function createSandbox(
  op: Op,
  deps: WorkerDeps,
  pod: NodePod,
  { attempt, why }: { readonly attempt: number; readonly why: string },
): Promise<void> {
  const startedMs = deps.clock.monotonicMs();
  if (attempt > 0) {
    deps.story.tell({
      pod,
      what: 'sandbox.changed',
      message: 'Pod sandbox changed, it will be killed and re-created.',
      why,
      event: { type: 'Normal', reason: 'SandboxChanged' },
    });
  }
  try {
    await mkdir(deps.paths.logs(pod), { recursive: true, mode: 0o755 });
    const config = await sandboxConfigOf(deps, pod, attempt);
    const request = RunPodSandboxRequest.fromPartial({ config });
    const { podSandboxId } = await withDeadline(op, deps.clock, RUN_SANDBOX_TIMEOUT_MS, 'RunPodSandbox', (bounded) =>
      deps.runtime.runPodSandbox(bounded, request),
    );
    deps.story.tell({
      pod,
      sandboxId: podSandboxId,
      what: 'pod.sandbox-created',
      message: 'the sandbox is ready',
      why,
      outcome: 'ok',
      durationMs: deps.clock.monotonicMs() - startedMs,
    });
  } catch (error) {
    // Broken off because the pod is to end: nobody's failure.
    if (op.signal.aborted) throw error;
    deps.story.tell({
      pod,
      what: 'pod.sandbox-failed',
      message: `Failed to create pod sandbox: ${messageOf(error)}`,
      why,
      outcome: 'failed',
      durationMs: deps.clock.monotonicMs() - startedMs,
      event: { type: 'Warning', reason: 'FailedCreatePodSandBox' },
    });
    throw error;
  }
}

/** Writes the pod's /etc/hosts for the addresses that it has now. */
export async function writeHostsFile(deps: WorkerDeps, pod: NodePod, ips: readonly string[]): Promise<string> {
  const path = deps.paths.etcHosts(pod.uid);
  const text = hostsFile({
    hostname: hostnameOf(pod),
    ips,
    aliases: pod.spec.hostAliases ?? [],
    ...(pod.spec.hostNetwork === true ? { hostFile: await deps.node.hostsFile() } : {}),
  });
  await keepFile(path, text, { mode: 0o644, sync: false });
  return path;
}
