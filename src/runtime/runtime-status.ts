import type { RuntimeConfigResponse, StatusRequest, StatusResponse, VersionResponse } from '../cri/gen/api.ts';
import { CgroupDriver } from '../cri/gen/api.ts';
import type { Op } from '../lib/abort.ts';
import type { RuntimeContext } from './context.ts';

/** kubelet refuses any other value here: it is the version of its own question. */
const KUBELET_API_VERSION = '0.1.0';
const CRI_VERSION = 'v1';

export function version(rt: RuntimeContext): VersionResponse {
  return {
    version: KUBELET_API_VERSION,
    runtimeName: 'gantry',
    runtimeVersion: rt.settings.version,
    runtimeApiVersion: CRI_VERSION,
  };
}

/** The network is asked each time: a configuration may have come or gone. */
export async function status(_op: Op, rt: RuntimeContext, { verbose }: StatusRequest): Promise<StatusResponse> {
  const network = await rt.networks.status();
  const { notices } = rt;
  const { shortage } = rt.room;
  return {
    status: {
      conditions: [
        { type: 'RuntimeReady', status: true, reason: '', message: '' },
        { type: 'NetworkReady', status: network.ready, reason: network.reason, message: network.message },
        // Not one of CRI's two: a runtime whose disk is full is ready for all but new pods.
        {
          type: 'DiskHasRoom',
          status: shortage === undefined,
          reason: shortage === undefined ? '' : 'DiskFull',
          message: shortage ?? '',
        },
      ],
    },
    info: verbose ? { config: JSON.stringify(rt.settings), notices: JSON.stringify(notices) } : {},
    runtimeHandlers: ['', ...rt.specs.runtimeHandlers].map((name) => ({
      name,
      features: { recursiveReadOnlyMounts: rt.specs.features.recursiveReadOnlyMounts, userNamespaces: false },
    })),
    features: { supplementalGroupsPolicy: true, userNamespacesHostNetwork: false },
  };
}

export function runtimeConfig(): RuntimeConfigResponse {
  return { linux: { cgroupDriver: CgroupDriver.CGROUPFS } };
}
