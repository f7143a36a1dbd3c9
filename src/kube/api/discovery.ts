import { RESOURCES } from '../resources.ts';

/** The documents by which clients find out what this API has. */

const VERBS: readonly string[] = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];
const STATUS_VERBS: readonly string[] = ['get', 'patch', 'update'];

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
    const log = { name: 'pods/log', singularName: '', namespaced, kind, verbs: ['get'] };
    return [main, ...more, ...(info.resource === 'pods' ? [log] : [])];
  }),
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
