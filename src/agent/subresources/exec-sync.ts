import type { Op } from '../../lib/abort.ts';
import { EXEC_OUTPUT_CAP_BYTES } from '../../cri/exec-output-cap.ts';
import { ExecSyncRequest } from '../../cri/gen/api.ts';
import type { ExecOutcome, ExecRequest } from '../../kube/gantry-extensions.ts';
import { containerName, findPod, runningContainer, type FindContainerDeps } from './find-container.ts';

/** Runs a command in a container of a pod to its end. */
export async function podExecSync(op: Op, deps: FindContainerDeps, request: ExecRequest): Promise<ExecOutcome> {
  const pod = await findPod(op, deps, request);
  const container = await runningContainer(op, deps, pod, containerName(pod, request.container));
  const { exitCode, stdout, stderr } = await deps.runtime.execSync(
    op,
    ExecSyncRequest.fromPartial({
      containerId: container.id,
      cmd: [...request.command],
      timeout: BigInt(request.timeoutSeconds ?? 0),
    }),
  );
  const reached = (stream: Uint8Array): boolean => stream.length >= EXEC_OUTPUT_CAP_BYTES;
  const cutOff = (['stdout', 'stderr'] as const).filter((name) => reached(name === 'stdout' ? stdout : stderr));
  return { exitCode, stdout, stderr, cutOff };
}
