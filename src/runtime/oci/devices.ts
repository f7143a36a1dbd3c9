import type { Stats } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf, invalidArgument, notFound } from '../../lib/errors.ts';
import type { DeviceInput } from './container-spec-input.ts';
import type { OciDevice } from './spec.ts';

/** The node as a specification has it; undefined for what is no device. */
export function deviceNode(path: string, stats: Stats): OciDevice | undefined {
  const type = stats.isBlockDevice() ? 'b' : stats.isCharacterDevice() ? 'c' : undefined;
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
export async function devicesAt(hostPath: string, containerPath: string, permissions: string): Promise<DeviceInput[]> {
  const stats = await stat(hostPath).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') throw notFound(`device ${hostPath}: no such file`);
    throw error;
  });
  const device = deviceNode(containerPath, stats);
  if (device !== undefined) return [{ containerPath, device, permissions }];
  if (!stats.isDirectory()) throw invalidArgument(`device ${hostPath}: neither a device nor a folder of devices`);
  const found: DeviceInput[] = [];
  for (const entry of await readdir(hostPath, { withFileTypes: true })) {
    if (!entry.isDirectory() && !entry.isCharacterDevice() && !entry.isBlockDevice()) continue;
    found.push(...(await devicesAt(join(hostPath, entry.name), join(containerPath, entry.name), permissions)));
  }
  return found;
}
