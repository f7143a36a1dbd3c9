import { isHugePagesMedium } from '../huge-pages.ts';
import { dnsLabel, dnsSubdomain, localPath, type Check } from './names.ts';
import {
  checked,
  flag,
  has,
  integer,
  list,
  must,
  object,
  oneOf,
  quantity,
  refusePresent,
  text,
  type Fields,
} from './schema.ts';

const SUPPORTED = 'supported are emptyDir, hostPath, configMap, secret and image';

const trimmed: Check = (value) => (value === value.trim() ? undefined : 'must not have leading or trailing whitespace');

const medium: Check = (value) =>
  ['', 'Memory'].includes(value) || isHugePagesMedium(value)
    ? undefined
    : "must be one of '', Memory, HugePages or HugePages-<size>, such as HugePages-2Mi";

const keyToPath: Fields = { key: must(text), path: must(checked(localPath)), mode: has(integer(0, 0o777)) };

const sources: Fields = {
  emptyDir: has(object({ medium: has(checked(medium)), sizeLimit: has(quantity) })),
  hostPath: has(
    object({
      path: must(text),
      type: has(
        oneOf('', 'DirectoryOrCreate', 'Directory', 'FileOrCreate', 'File', 'Socket', 'CharDevice', 'BlockDevice'),
      ),
    }),
  ),
  configMap: has(
    object({
      name: must(checked(dnsSubdomain)),
      items: has(list(object(keyToPath), 'path')),
      defaultMode: has(integer(0, 0o777)),
      optional: has(flag),
    }),
  ),
  secret: has(
    object({
      secretName: must(checked(dnsSubdomain)),
      items: has(list(object(keyToPath), 'path')),
      defaultMode: has(integer(0, 0o777)),
      optional: has(flag),
    }),
  ),
  image: has(object({ reference: must(checked(trimmed)), pullPolicy: has(oneOf('Always', 'IfNotPresent', 'Never')) })),
  ...Object.fromEntries(
    [
      'awsElasticBlockStore',
      'azureDisk',
      'azureFile',
      'cephfs',
      'cinder',
      'csi',
      'downwardAPI',
      'ephemeral',
      'fc',
      'flexVolume',
      'flocker',
      'gcePersistentDisk',
      'gitRepo',
      'glusterfs',
      'iscsi',
      'nfs',
      'persistentVolumeClaim',
      'photonPersistentDisk',
      'portworxVolume',
      'projected',
      'quobyte',
      'rbd',
      'scaleIO',
      'storageos',
      'vsphereVolume',
    ].map((name) => [name, refusePresent(`volumes of this kind; ${SUPPORTED}`)]),
  ),
};

export const volume: Fields = { name: must(checked(dnsLabel)), ...sources };

export const volumeSourceNames: readonly string[] = Object.keys(sources);
