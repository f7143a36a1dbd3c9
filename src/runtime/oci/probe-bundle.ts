import { lstat, mkdir, readlink, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf } from '../../lib/errors.ts';
import { rmdirIfThere, unlinkIfThere } from '../../lib/may-be-gone.ts';
import type { CgroupHost } from '../../linux/cgroup-host.ts';
import { cgroupAnnotations, cgroupsPath, type CgroupChoice } from './cgroups-path.ts';
import { OCI_VERSION, type OciMount, type OciSpec } from './spec.ts';

/** A merged-usr system has links here; an older one folders. */
const SYSTEM_FOLDERS = ['bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32'];

/**
 * A bundle that needs no image: the host's own programs, mounted read-only, in namespaces of their own. What it runs
 * prints the host name that only this container has: a program that ends with success and runs nothing does not know it.
 */
export class ProbeBundle {
  readonly dir: string;
  readonly #mounted: string[] = ['proc', 'dev', 'sys', 'usr'];
  readonly #links: string[] = [];

  constructor(dir: string) {
    this.dir = dir;
  }

  /** Whether an earlier one was not removed. */
  async isThere(): Promise<boolean> {
    return await lstat(this.dir).then(
      () => true,
      () => false,
    );
  }

  /** @param hostName what the container prints */
  async write(cgroup: CgroupChoice, cgroups: CgroupHost, hostName: string): Promise<void> {
    const rootfs = join(this.dir, 'rootfs');
    await mkdir(rootfs, { recursive: true, mode: 0o755 });
    for (const name of SYSTEM_FOLDERS) await this.#like(name, join(rootfs, name));
    for (const name of this.#mounted) await mkdir(join(rootfs, name), { recursive: true, mode: 0o755 });
    const spec = {
      ...probeSpec(rootfs, this.#mounted.slice(3), cgroup, cgroups),
      hostname: hostName,
    };
    await writeFile(join(this.dir, 'config.json'), JSON.stringify(spec), { mode: 0o600 });
  }

  /** Takes away what `write` made, name by name. */
  async remove(): Promise<void> {
    const rootfs = join(this.dir, 'rootfs');
    for (const name of this.#links) await unlinkIfThere(join(rootfs, name));
    for (const name of this.#mounted) await rmdirIfThere(join(rootfs, name));
    await rmdirIfThere(rootfs);
    await unlinkIfThere(join(this.dir, 'config.json'));
    await rmdirIfThere(this.dir);
  }

  async #like(name: string, path: string): Promise<void> {
    const stats = await lstat(`/${name}`).catch(() => undefined);
    if (stats?.isSymbolicLink() === true) {
      this.#links.push(name);
      await symlink((await readlink(`/${name}`)).replace(/^\/+/, ''), path).catch((error: unknown) => {
        if (errnoOf(error) !== 'EEXIST') throw error;
      });
    } else if (stats?.isDirectory() === true) {
      this.#mounted.push(name);
    }
  }
}

/** Small, but with what makes OCI runtimes refuse: a cgroup with limits, every namespace, a cgroup mount, the daemon's rights. */
function probeSpec(rootfs: string, folders: readonly string[], cgroup: CgroupChoice, cgroups: CgroupHost): OciSpec {
  const none = { bounding: [], effective: [], permitted: [], inheritable: [], ambient: [] };
  const bind = (name: string): OciMount => ({
    destination: `/${name}`,
    type: 'bind',
    source: `/${name}`,
    options: ['bind', 'rprivate', 'ro'],
  });
  return {
    ociVersion: OCI_VERSION,
    process: {
      terminal: false,
      user: { uid: 0, gid: 0 },
      args: ['cat', '/proc/sys/kernel/hostname'],
      env: ['PATH=/usr/bin:/bin'],
      cwd: '/',
      capabilities: none,
      noNewPrivileges: true,
    },
    root: { path: rootfs, readonly: true },
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc', options: ['nosuid', 'noexec', 'nodev'] },
      { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'mode=755', 'size=64k'] },
      { destination: '/sys', type: 'sysfs', source: 'sysfs', options: ['nosuid', 'noexec', 'nodev', 'ro'] },
      {
        destination: '/sys/fs/cgroup',
        type: 'cgroup',
        source: 'cgroup',
        options: ['nosuid', 'noexec', 'nodev', 'relatime', 'ro'],
      },
      ...folders.map(bind),
    ],
    annotations: cgroupAnnotations(cgroup),
    linux: {
      namespaces: [
        { type: 'pid' },
        { type: 'mount' },
        { type: 'ipc' },
        { type: 'uts' },
        { type: 'network' },
        ...(cgroups.mode === 'v2' ? [{ type: 'cgroup' } as const] : []),
      ],
      cgroupsPath: cgroupsPath(cgroup),
      resources: {
        devices: [{ allow: false, access: 'rwm' }],
        memory: { limit: 512 << 20 },
        cpu: { shares: 512 },
        pids: { limit: 100 },
      },
    },
  };
}
