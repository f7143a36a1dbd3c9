import type { JournalReader } from '../journal/journal.ts';
import { notFound } from '../lib/errors.ts';
import { NOT_LOOKED_YET, type Agent } from '../agent/agent.ts';
import type { KubeClient } from '../kube/client.ts';
import type { GantryExtensions, PendingWork } from '../kube/gantry-extensions.ts';
import type { Runtime } from '../runtime/main.ts';
import { explainContainer, explainPod } from './explain-pod.ts';
import { imageDetails, imageSummary, importImage, pullImage } from './image-transfers.ts';
import { readPodMetrics } from './pod-metrics.ts';
import { stopByName } from './stop-request.ts';

export interface ExtensionDeps {
  readonly runtime: Runtime;
  readonly journal: JournalReader;
  readonly kube: KubeClient;
  /** Absent while the agent is being made. */
  readonly agent: () => Agent | undefined;
}

/** What Gantry's API answers beside Kubernetes' objects, out of runtime, agent and journal. */
export function gantryExtensions({ runtime, journal, kube, agent }: ExtensionDeps): GantryExtensions {
  const { images } = runtime;
  const pendingOfAgent = (uid: string): readonly PendingWork[] => agent()?.pendingWork(uid) ?? [NOT_LOOKED_YET];
  return {
    explain: (op, request) => explainPod(op, { journal, kube, inspector: runtime.inspector, pendingOfAgent }, request),
    explainContainer: (op, request) => explainContainer(op, { inspector: runtime.inspector, pendingOfAgent }, request),
    podMetrics: (op, request) => readPodMetrics(op, { kube, runtime: runtime.runtime }, request),
    doctor: (op, request) => runtime.inspector.doctor(op, request),
    stop: (op, request) =>
      stopByName(op, { runtime: runtime.runtime, kube, stop: (inner, order) => runtime.stop(inner, order) }, request),
    listImages: () => Promise.resolve(images.list().map(imageSummary)),
    inspectImage: async (_op, reference) => {
      const record = images.resolve(reference);
      if (record === undefined) throw notFound(`image ${reference} is not here`);
      return imageDetails(record, await images.configText(record.id));
    },
    pullImage: (op, request) => pullImage(op, images, request),
    importImage: (op, request) => importImage(op, images, request),
    removeImage: async (op, reference, { force = false } = {}) => {
      const removed = await images.remove(op, reference, { evenInUse: force });
      if (removed.kind === 'absent') throw notFound(`image ${reference} is not here`);
      return removed.kind === 'removed' ? [...removed.names, removed.id] : removed.names;
    },
  };
}
