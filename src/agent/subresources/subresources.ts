import type { PodSubresources } from '../../kube/gantry-extensions.ts';
import type { PodStreamUrls } from '../../kube/streams/pod-streams.ts';
import { podLogs, type PodLogsDeps } from './pod-logs.ts';
import { podStreamUrl } from './stream-url.ts';

/** What the API is asked for below a pod, and the agent answers: logs, commands in its containers, its ports. */
export function podSubresources(deps: PodLogsDeps): PodSubresources & PodStreamUrls {
  return {
    logs: (op, options) => podLogs(op, deps, options),
    streamUrl: (op, request) => podStreamUrl(op, deps, request),
  };
}
