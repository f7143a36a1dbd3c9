/**
 * Lists of the v1 types that are merged item by item, with the field that tells items apart; '' for lists of plain values.
 * A list that is not here is replaced as a whole. By field name, which is the same everywhere in the types that this API keeps.
 */
const MERGE_KEYS: Readonly<Record<string, string>> = {
  addresses: 'type',
  conditions: 'type',
  containers: 'name',
  env: 'name',
  ephemeralContainers: 'name',
  finalizers: '',
  hostAliases: 'ip',
  imagePullSecrets: 'name',
  initContainers: 'name',
  ownerReferences: 'uid',
  podIPs: 'ip',
  ports: 'containerPort',
  resourceClaims: 'name',
  taints: 'key',
  topologySpreadConstraints: 'topologyKey',
  volumeDevices: 'devicePath',
  volumeMounts: 'mountPath',
  volumes: 'name',
};

export function mergeKeyOf(field: string): string | undefined {
  return Object.hasOwn(MERGE_KEYS, field) ? MERGE_KEYS[field] : undefined;
}
