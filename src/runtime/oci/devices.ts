import { constants } from 'node:fs';
import { join } from 'node:path';
import type { Op } from '../../lib/abort.ts';
import { errnoOf, invalidArgument, notFound } from '../../lib/errors.ts';
import type { HostFiles } from '../../linux/host-files.ts';
import type { DeviceInput } from './container-spec-input.ts';
import type { OciDevice } from './spec.ts';

/** The node as a specification has it; undefined for what is no device. */
export function deviceNode(
  path: string,
  stats: { readonly mode: number; readonly rdev: number; readonly uid: number; readonly gid: number },
): OciDevice | undefined {
  const kind = stats.mode & constants.S_IFMT;
  const type = kind === constants.S_IFBLK ? 'b' : kind === constants.S_IFCHR ? 'c' : undefined;
  if (type === undefined) return undefined;
  const { major, minor } = splitDeviceNumber(BigInt(stats.rdev));
  return { type, path, major, minor, fileMode: stats.mode & 0o777, uid: stats.uid, gid: stats.gid };
}

/** glibc's encoding of dev_t: 12 bits of major and 8 of minor below, the rest above. */
export function splitDeviceNumber(dev: bigint): { readonly major: number; readonly minor: number } {
  return {
    major: Number(((dev >> 8n) & 0xfffn) | ((dev >> 32n) & 0xfffff000n)),
    minor: Number((dev & 0xffn) | ((dev >> 12n) & 0xffffff00n)),
  };
}

/** The CRI's Device: one node, or a folder of nodes. NotFound, or InvalidArgument for what is neither. */
export async function devicesAt(
  op: Op,
  files: Pick<HostFiles, 'stat' | 'list'>,
  hostPath: string,
  containerPath: string,
  permissions: string,
): Promise<DeviceInput[]> {
  const stats = await files.stat(op, hostPath).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') throw notFound(`device ${hostPath}: no such file`);
    throw error;
  });
  const device = deviceNode(containerPath, stats);
  if (device !== undefined) return [{ containerPath, device, permissions }];
  if ((stats.mode & constants.S_IFMT) !== constants.S_IFDIR) {
    throw invalidArgument(`device ${hostPath}: neither a device nor a folder of devices`);
  }
  const found: DeviceInput[] = [];
  for (const { name, kind } of await files.list(op, hostPath)) {
    if (kind === 'other') continue;
    found.push(...(await devicesAt(op, files, join(hostPath, name), join(containerPath, name), permissions)));
  }
  return found;
}
