import type { RuntimeService } from '../cri/services.ts';
import { checkpointContainer } from './container/checkpoint-container.ts';
import { containerStatus } from './container/container-status.ts';
import { createContainer } from './container/create-container.ts';
import { execSync } from './container/exec-sync.ts';
import { listContainers } from './container/list-containers.ts';
import { removeContainer } from './container/remove-container.ts';
import { reopenContainerLog } from './container/reopen-log.ts';
import { startContainer } from './container/start-container.ts';
import { stopContainer } from './container/stop-container.ts';
import { updateContainerResources } from './container/update-resources.ts';
import type { RuntimeContext } from './context.ts';
import { getContainerEvents } from './events/get-container-events.ts';
import { runtimeConfig, status, version } from './runtime-status.ts';
import { listPodSandbox } from './sandbox/list-sandboxes.ts';
import { removePodSandbox } from './sandbox/remove-sandbox.ts';
import { runPodSandbox } from './sandbox/run-sandbox.ts';
import { podSandboxStatus } from './sandbox/sandbox-status.ts';
import { stopPodSandbox } from './sandbox/stop-sandbox.ts';
import { updatePodSandboxResources } from './sandbox/update-sandbox-resources.ts';
import { updateRuntimeConfig } from './update-runtime-config.ts';

/** CRI's runtime half: each verb is in a file of its own. */
export function createRuntimeService(rt: RuntimeContext): RuntimeService {
  return {
    version: () => Promise.resolve(version(rt)),
    status: (op, request) => status(op, rt, request),
    runtimeConfig: () => Promise.resolve(runtimeConfig(rt)),
    updateRuntimeConfig: (op, request) => updateRuntimeConfig(op, rt, request),

    runPodSandbox: (op, request) => runPodSandbox(op, rt, request),
    stopPodSandbox: (op, request) => stopPodSandbox(op, rt, request),
    removePodSandbox: (op, request) => removePodSandbox(op, rt, request),
    podSandboxStatus: (op, request) => podSandboxStatus(op, rt, request),
    listPodSandbox: (op, request) => listPodSandbox(op, rt, request),
    updatePodSandboxResources: (op, request) => updatePodSandboxResources(op, rt, request),

    createContainer: (op, request) => createContainer(op, rt, request),
    startContainer: (op, request) => startContainer(op, rt, request),
    stopContainer: (op, request) => stopContainer(op, rt, request),
    removeContainer: (op, request) => removeContainer(op, rt, request),
    containerStatus: (op, request) => containerStatus(op, rt, request),
    listContainers: (op, request) => listContainers(op, rt, request),
    updateContainerResources: (op, request) => updateContainerResources(op, rt, request),
    checkpointContainer: (op, request) => checkpointContainer(op, rt, request),
    execSync: (op, request) => execSync(op, rt, request),
    reopenContainerLog: (op, request) => reopenContainerLog(op, rt, request),
    getContainerEvents: (op) => getContainerEvents(op, rt),
  };
}
