import { RESOURCES } from '../resources.ts';
import { STREAM_SUBRESOURCES } from '../streams/pod-streams.ts';

/** The documents by which clients find out what this API has. */

const VERBS: readonly string[] = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];
const STATUS_VERBS: readonly string[] = ['get', 'patch', 'update'];

const STREAM_VERBS: readonly string[] = ['create', 'get'];
const STREAM_KINDS = {
  exec: 'PodExecOptions',
  attach: 'PodAttachOptions',
  portforward: 'PodPortForwardOptions',
} as const;

/** The Kubernetes release whose API this one follows. */
const KUBERNETES_MINOR = '36';

export const apiVersions = {
  kind: 'APIVersions',
  versions: ['v1'],
  serverAddressByClientCIDRs: [],
};

export const apiGroups = { kind: 'APIGroupList', apiVersion: 'v1', groups: [] };

export const coreResources = {
  kind: 'APIResourceList',
  groupVersion: 'v1',
  resources: Object.values(RESOURCES).flatMap((info) => {
    const { kind, namespaced } = info;
    const main = {
      name: info.resource,
      singularName: info.singular,
      namespaced,
      kind,
      verbs: VERBS,
      ...(info.shortNames.length === 0 ? {} : { shortNames: info.shortNames }),
      ...(info.resource === 'pods' ? { categories: ['all'] } : {}),
    };
    const more = info.hasStatus
      ? [{ name: `${info.resource}/status`, singularName: '', namespaced, kind, verbs: STATUS_VERBS }]
      : [];
    const streams = STREAM_SUBRESOURCES.map((name) => {
      return { name: `pods/${name}`, singularName: '', namespaced, kind: STREAM_KINDS[name], verbs: STREAM_VERBS };
    });
    const log = { name: 'pods/log', singularName: '', namespaced, kind, verbs: ['get'] };
    return [main, ...more, ...(info.resource === 'pods' ? [log, ...streams] : [])];
  }),
};

export const openApiIndex = { paths: { 'api/v1': { serverRelativeURL: '/openapi/v3/api/v1' } } };

const patchParameters = ['dryRun', 'fieldManager', 'fieldValidation', 'force'].map((name) => ({
  name,
  in: 'query',
  schema: { type: 'string' },
}));

/** Just enough OpenAPI for kubectl to see that the server checks fields itself, so that it need not (and cannot) do so. */
export const openApiCore = {
  openapi: '3.0.0',
  info: { title: 'Gantry', version: `v1.${KUBERNETES_MINOR}.0` },
  paths: Object.fromEntries(
    Object.values(RESOURCES).map(({ resource, kind, namespaced }) => [
      `/api/v1/${namespaced ? 'namespaces/{namespace}/' : ''}${resource}/{name}`,
      {
        patch: {
          parameters: patchParameters,
          responses: { 200: { description: 'OK' } },
          'x-kubernetes-action': 'patch',
          'x-kubernetes-group-version-kind': { group: '', kind, version: 'v1' },
        },
      },
    ]),
  ),
  components: { schemas: {} },
};

export function versionInfo(gantryVersion: string): Record<string, string> {
  return {
    major: '1',
    minor: KUBERNETES_MINOR,
    gitVersion: `v1.${KUBERNETES_MINOR}.0+gantry-${gantryVersion}`,
    gitCommit: '',
    gitTreeState: 'clean',
    buildDate: '1970-01-01T00:00:00Z',
    goVersion: 'none',
    compiler: `node ${process.version}`,
    platform: `linux/${process.arch === 'x64' ? 'amd64' : process.arch}`,
  };
}
