import { ListPodSandboxRequest } from '../../cri/gen/api.ts';
import type { RuntimeService } from '../../cri/services.ts';
import type { Op } from '../../lib/abort.ts';
import { isKind } from '../../lib/errors.ts';
import { LABEL_AGENT } from '../pods/names.ts';

type SandboxLooks = Pick<RuntimeService, 'listPodSandbox' | 'podSandboxStatus'>;

/**
 * Log directories of sandboxes that somebody else than this agent has made in the runtime, crictl for one; each with words for its sandbox.
 * CRI has no field for them: they are in the verbose status, where the runtime has the sandbox's configuration in it.
 */
export async function otherSandboxesLogs(
  op: Op,
  runtime: SandboxLooks,
  agentId: string,
): Promise<ReadonlyMap<string, string>> {
  const { items } = await runtime.listPodSandbox(op, ListPodSandboxRequest.fromPartial({}));
  const logs = new Map<string, string>();
  for (const { id, metadata, labels } of items) {
    if (labels[LABEL_AGENT] === agentId) continue;
    const directory = await logDirectoryOf(op, runtime, id);
    if (directory !== undefined) logs.set(directory, `sandbox ${id.slice(0, 13)} (${metadata?.name ?? 'no name'})`);
  }
  return logs;
}

async function logDirectoryOf(op: Op, runtime: SandboxLooks, podSandboxId: string): Promise<string | undefined> {
  try {
    const { info } = await runtime.podSandboxStatus(op, { podSandboxId, verbose: true });
    const { config } = JSON.parse(info['info'] ?? '{}') as { config?: Readonly<Record<string, unknown>> };
    // Ours writes names as protobuf's JSON has them, containerd as its Go fields' tags do.
    const directory = config?.['logDirectory'] ?? config?.['log_directory'];
    return typeof directory === 'string' && directory !== '' ? directory : undefined;
  } catch (error) {
    // Removed since, or words that are no JSON.
    if (isKind(error, 'NotFound') || error instanceof SyntaxError) return undefined;
    throw error;
  }
}
