import { invalidArgument } from '../../lib/errors.ts';
import type { Fields } from './fields.ts';

/** What is to be done to a container's OCI configuration. */
export interface ContainerEdits {
  /** `NAME=value` */
  readonly env: readonly string[];
  readonly deviceNodes: readonly DeviceNodeEdit[];
  readonly mounts: readonly MountEdit[];
  readonly hooks: readonly HookEdit[];
  readonly additionalGids: readonly number[];
}

/** What is not said is read from the host's own node. */
export interface DeviceNodeEdit {
  /** In the container. */
  readonly path: string;
  /** On the host; absent: the same. */
  readonly hostPath?: string;
  readonly type?: 'b' | 'c' | 'u' | 'p';
  readonly major?: number;
  readonly minor?: number;
  readonly fileMode?: number;
  /** Any of `rwm`; absent: all. */
  readonly permissions?: string;
  readonly uid?: number;
  readonly gid?: number;
}

export interface MountEdit {
  readonly hostPath: string;
  readonly containerPath: string;
  readonly options: readonly string[];
  readonly type?: string;
}

export const HOOK_NAMES = [
  'prestart',
  'createRuntime',
  'createContainer',
  'startContainer',
  'poststart',
  'poststop',
] as const;
export type HookName = (typeof HOOK_NAMES)[number];

export interface HookEdit {
  readonly name: HookName;
  readonly path: string;
  readonly args: readonly string[];
  readonly env: readonly string[];
  readonly timeoutSeconds?: number;
}

/** Throws InvalidArgument, naming the field. */
export function readEdits(fields: Fields): ContainerEdits {
  const edits: ContainerEdits = {
    env: fields.texts('env').map((line) => {
      if (!/^[^=\0]+=[^\0]*$/.test(line))
        throw invalidArgument(`${fields.path}.env ${JSON.stringify(line)}: no NAME=value`);
      return line;
    }),
    deviceNodes: fields.list('deviceNodes').map(readDeviceNode),
    mounts: fields.list('mounts').map(readMount),
    hooks: fields.list('hooks').map(readHook),
    additionalGids: fields.numbers('additionalGids').filter((gid) => gid !== 0),
  };
  fields.refuse('intelRdt', 'classes of Intel RDT are not supported');
  fields.refuse('netDevices', 'network devices are not supported');
  fields.end();
  return edits;
}

function readDeviceNode(fields: Fields): DeviceNodeEdit {
  const type = fields.text('type');
  if (type !== undefined && !isDeviceType(type))
    throw invalidArgument(`${fields.path}.type ${type}: none of b, c, u, p`);
  const permissions = fields.text('permissions');
  if (permissions !== undefined && !/^[rwm]*$/.test(permissions)) {
    throw invalidArgument(`${fields.path}.permissions ${permissions}: only r, w and m`);
  }
  const node: DeviceNodeEdit = {
    path: absolute(fields, 'path'),
    ...given('hostPath', fields.text('hostPath')),
    ...given('type', type),
    ...given('major', fields.number('major')),
    ...given('minor', fields.number('minor')),
    ...given('fileMode', fields.number('fileMode')),
    ...given('permissions', permissions === '' ? undefined : permissions),
    ...given('uid', fields.number('uid')),
    ...given('gid', fields.number('gid')),
  };
  fields.end();
  return node;
}

function isDeviceType(text: string): text is 'b' | 'c' | 'u' | 'p' {
  return ['b', 'c', 'u', 'p'].includes(text);
}

function readMount(fields: Fields): MountEdit {
  const hostPath = fields.text('hostPath') ?? '';
  if (hostPath === '') throw invalidArgument(`${fields.path}.hostPath: not there`);
  const mount: MountEdit = {
    hostPath,
    containerPath: absolute(fields, 'containerPath'),
    options: fields.texts('options'),
    ...given('type', fields.text('type')),
  };
  fields.end();
  return mount;
}

function readHook(fields: Fields): HookEdit {
  const hookName = fields.text('hookName');
  const name = HOOK_NAMES.find((known) => known === hookName);
  if (name === undefined)
    throw invalidArgument(`${fields.path}.hookName ${hookName ?? ''}: none of ${HOOK_NAMES.join(', ')}`);
  const hook: HookEdit = {
    name,
    path: absolute(fields, 'path'),
    args: fields.texts('args'),
    env: fields.texts('env'),
    ...given('timeoutSeconds', fields.number('timeout')),
  };
  fields.end();
  return hook;
}

function absolute(fields: Fields, name: string): string {
  const path = fields.text(name) ?? '';
  if (!path.startsWith('/')) throw invalidArgument(`${fields.path}.${name} ${JSON.stringify(path)}: no absolute path`);
  return path;
}

function given<Key extends string, T>(key: Key, value: T | undefined): Partial<Record<Key, T>> {
  return value === undefined ? {} : ({ [key]: value } as Record<Key, T>);
}
