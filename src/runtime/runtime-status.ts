import type {
  RuntimeConfigResponse,
  RuntimeHandler,
  StatusRequest,
  StatusResponse,
  VersionResponse,
} from '../cri/gen/api.ts';
import { CgroupDriver } from '../cri/gen/api.ts';
import type { Op } from '../lib/abort.ts';
import type { RuntimeContext } from './context.ts';
import type { WorkingRuntime } from './oci/probe.ts';
import type { Handlers } from './oci/runtime-handlers.ts';

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
  const { unready } = rt.handlers;
  const { shortage } = rt.room;
  return {
    status: {
      conditions: [
        {
          type: 'RuntimeReady',
          status: unready === undefined,
          reason: unready === undefined ? '' : 'OciRuntimeNotReady',
          message: unready ?? '',
        },
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
    info: verbose ? verboseInfo(rt) : {},
    runtimeHandlers: shownHandlers(rt.handlers),
    features: { supplementalGroupsPolicy: true, userNamespacesHostNetwork: false },
  };
}

/** The empty name is the default handler's, beside its own. */
function shownHandlers({ default: chosen, working }: Handlers): RuntimeHandler[] {
  const shown = (name: string, { features }: WorkingRuntime): RuntimeHandler => ({
    name,
    features: { ...features },
  });
  return [
    ...(chosen === undefined ? [] : [shown('', chosen)]),
    ...working.map((handler) => shown(handler.runtime.name, handler)),
  ];
}

/** Each value is JSON, as crictl's `info` wants it. */
function verboseInfo({ settings, notices, handlers, bootId }: RuntimeContext): Record<string, string> {
  const info = {
    config: settings,
    versions: { gantry: settings.version, node: process.version, bootId },
    handlers: {
      default: handlers.default?.runtime.name,
      working: handlers.working.map(({ runtime, version, features }) => ({ ...runtime, version, features })),
      refused: handlers.refused,
    },
    notices,
  };
  return Object.fromEntries(Object.entries(info).map(([name, value]) => [name, JSON.stringify(value)]));
}

/** What new sandboxes are made with, for as long as this daemon lives: a kubelet asks once. */
export function runtimeConfig({ settings }: Pick<RuntimeContext, 'settings'>): RuntimeConfigResponse {
  const cgroupDriver = settings.cgroupDriver === 'systemd' ? CgroupDriver.SYSTEMD : CgroupDriver.CGROUPFS;
  return { linux: { cgroupDriver } };
}
