import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { deviceNode } from './devices.ts';
import type { OciDevice } from './spec.ts';

/** What a container has of its own there; `.lxc` and `.lxd-mounts` hold other runtimes' files. */
const NOT_HOST_DEVICES = new Set(['pts', 'shm', 'fd', 'mqueue', 'console', '.lxc', '.lxd-mounts', '.udev']);

/** Every device node of the host's /dev, as it is now: devices are plugged in and out. */
export async function hostDevices(directory = '/dev'): Promise<OciDevice[]> {
  const devices: OciDevice[] = [];
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    if (NOT_HOST_DEVICES.has(entry.name)) continue;
    const path = join(directory, entry.name);
    if (entry.isDirectory()) {
      devices.push(...(await hostDevices(path).catch(() => [])));
    } else if (entry.isCharacterDevice() || entry.isBlockDevice()) {
      // It may be unplugged while we read.
      const stats = await lstat(path).catch(() => undefined);
      const device = stats === undefined ? undefined : deviceNode(path, stats);
      if (device !== undefined) devices.push(device);
    }
  }
  return devices;
}
