import type { Op } from '../../lib/abort.ts';
import { errnoOf, failedPrecondition } from '../../lib/errors.ts';
import type { HostFiles } from '../../linux/host-files.ts';
import { HOOK_NAMES, type ContainerEdits, type DeviceNodeEdit } from '../cdi/container-edits.ts';
import { deviceNode } from '../oci/devices.ts';
import { outerFirst } from '../oci/mounts.ts';
import type { OciDevice, OciDeviceRule, OciHook, OciSpec } from '../oci/spec.ts';

type Files = Pick<HostFiles, 'stat'>;

/** Does to a configuration what CDI's files ask for, in their order. Throws FailedPrecondition for a device that the host does not have. */
export async function applyCdiEdits(
  op: Op,
  files: Files,
  spec: OciSpec,
  edits: readonly ContainerEdits[],
): Promise<OciSpec> {
  let edited = spec;
  for (const one of edits) {
    const nodes = await Promise.all(one.deviceNodes.map((node) => completeNode(op, files, node)));
    edited = withEdits(edited, one, nodes);
  }
  return edited;
}

/** A node as it will be in the container, and what may be done with it. */
interface CompleteNode {
  readonly node: OciDevice;
  readonly access: string;
}

/** What the file does not say is as it is on the host. */
async function completeNode(op: Op, files: Files, edit: DeviceNodeEdit): Promise<CompleteNode> {
  const { path, hostPath = path, type, major, minor, fileMode, uid, gid, permissions = 'rwm' } = edit;
  const owner = { ...(uid === undefined ? {} : { uid }), ...(gid === undefined ? {} : { gid }) };
  const mode = fileMode === undefined ? {} : { fileMode };
  if (type === 'p') return { node: { type, path, ...mode, ...owner }, access: '' };
  if (type !== undefined && (major !== undefined || minor !== undefined)) {
    return { node: { type, path, major: major ?? 0, minor: minor ?? 0, ...mode, ...owner }, access: permissions };
  }
  const found = deviceNode(path, await statDevice(op, files, hostPath));
  if (found === undefined || (type !== undefined && found.type !== (type === 'u' ? 'c' : type))) {
    throw failedPrecondition(`CDI device node ${path}: ${hostPath} of the host is no such device`);
  }
  const { major: foundMajor = 0, minor: foundMinor = 0 } = found;
  return {
    node: { type: found.type, path, major: foundMajor, minor: foundMinor, ...mode, ...owner },
    access: permissions,
  };
}

async function statDevice(op: Op, files: Files, path: string): ReturnType<Files['stat']> {
  try {
    return await files.stat(op, path);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') throw failedPrecondition(`CDI device node: the host has no ${path}`);
    throw error;
  }
}

/** Pure. What an edit names again (a variable, a node, a mount) takes the earlier one's place. */
function withEdits(spec: OciSpec, edits: ContainerEdits, nodes: readonly CompleteNode[]): OciSpec {
  const { process, linux, mounts } = spec;
  const mounted = new Set(edits.mounts.map(({ containerPath }) => containerPath));
  const made = new Set(nodes.map(({ node }) => node.path));
  const added = edits.mounts.map(({ hostPath, containerPath, options, type }) => ({
    destination: containerPath,
    source: hostPath,
    ...(type === undefined ? {} : { type }),
    options,
  }));
  const devices = [
    ...(linux.devices ?? []).filter(({ path }) => !made.has(path)),
    ...nodes.map(({ node }) => ownedBy(node, process.user.uid, process.user.gid)),
  ];
  const rules = [...(linux.resources?.devices ?? []), ...nodes.flatMap(ruleOf)];
  const gids = [...new Set([...(process.user.additionalGids ?? []), ...edits.additionalGids])];
  return {
    ...spec,
    process: {
      ...process,
      env: withVariables(process.env, edits.env),
      user: { ...process.user, additionalGids: gids },
    },
    mounts:
      added.length === 0 ? mounts : outerFirst([...mounts.filter((one) => !mounted.has(one.destination)), ...added]),
    ...(edits.hooks.length === 0 ? {} : { hooks: withHooks(spec.hooks ?? {}, edits) }),
    linux: {
      ...linux,
      ...(devices.length === 0 ? {} : { devices }),
      resources: { ...linux.resources, devices: rules },
    },
  };
}

/** A node whose owner is not said is the process's own: else one that is not root could not open it. */
function ownedBy(node: OciDevice, uid: number, gid: number): OciDevice {
  return {
    ...node,
    ...(node.uid === undefined && uid > 0 ? { uid } : {}),
    ...(node.gid === undefined && gid > 0 ? { gid } : {}),
  };
}

function ruleOf({ node, access }: CompleteNode): OciDeviceRule[] {
  const { type, major = 0, minor = 0 } = node;
  return type === 'p' ? [] : [{ allow: true, type: type === 'u' ? 'c' : type, major, minor, access }];
}

function withVariables(env: readonly string[], added: readonly string[]): readonly string[] {
  const lines = new Map([...env, ...added].map((line) => [line.slice(0, line.indexOf('=')), line]));
  return [...lines.values()];
}

function withHooks(before: NonNullable<OciSpec['hooks']>, { hooks }: ContainerEdits): NonNullable<OciSpec['hooks']> {
  const all = HOOK_NAMES.map((name): [typeof name, OciHook[]] => {
    const own = hooks.filter((hook) => hook.name === name);
    return [
      name,
      [
        ...(before[name] ?? []),
        ...own.map(({ path, args, env, timeoutSeconds }) => ({
          path,
          ...(args.length === 0 ? {} : { args }),
          ...(env.length === 0 ? {} : { env }),
          ...(timeoutSeconds === undefined ? {} : { timeout: timeoutSeconds }),
        })),
      ],
    ];
  });
  return Object.fromEntries(all.filter(([, list]) => list.length > 0));
}
