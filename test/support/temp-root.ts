import { randomBytes } from 'node:crypto';
import { chmod, mkdir, mkdtemp, rm, rmdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CLAIMS_FOLDER } from '../../src/gantryd/claims.ts';
import { execFile } from '../../src/linux/exec.ts';
import { silentLog } from '../../src/lib/log.ts';
import { mountsBelow, readMountinfo } from '../../src/linux/mountinfo.ts';
import { isAlive } from '../../src/linux/procfs.ts';
import type { CgroupDriver } from '../../src/runtime/settings.ts';
import type { FolderRoot, LeakRoots } from './leak-probes.ts';
import { claimFiles, cgroupFolders, look, markedProcesses } from './leak-probes.ts';

const op = { signal: new AbortController().signal, log: silentLog };

/**
 * What may differ between before and after without being a leak: sockets, locks, the databases and the room kept for them, and the network's folder,
 * where host-local keeps which address it gave last (the addresses themselves have a probe of their own), and crun's cache of
 * seccomp filters, one for each profile.
 */
const NOT_A_LEAK =
  /^cni(\/|$)|^oci-[^/]+\/\.cache$|(^|\/)([^/]*\.(sock|lock|pid)|[^/]*\.(db|sqlite)(-wal|-shm)?|gantryd\.log|reserve)$/;

export interface TempRootOptions {
  /** Default: what GANTRY_TEST_CGROUP_DRIVER says, else cgroupfs. */
  readonly cgroupDriver?: CgroupDriver;
}

interface Places extends TempRootOptions {
  readonly dir: string;
  readonly instance: string;
  readonly state: string;
  readonly netnsDir: string;
}

/**
 * All the places of a Gantry of a test's own, below one temporary folder and with an instance id of its own, so that it
 * shares nothing with another test's or with a user's Gantry. Disposing of it ends what is left of it by force (processes,
 * mounts, links, cgroups, claims, files), so that one failed test does not spoil the next: check for leaks before.
 */
export class TempRoot implements AsyncDisposable {
  /** Everything is below this. Short, because sockets' paths are limited. */
  readonly dir: string;
  /** 8 letters and digits, as `--instance` wants them. */
  readonly instance: string;
  /** `--state`. */
  readonly state: string;
  readonly netnsDir: string;
  readonly cgroupDriver: CgroupDriver;

  private constructor({ dir, instance, state, netnsDir, cgroupDriver }: Places) {
    this.dir = dir;
    this.instance = instance;
    this.state = state;
    this.netnsDir = netnsDir;
    this.cgroupDriver = cgroupDriver ?? driverOfTests();
  }

  static async make(options: TempRootOptions = {}): Promise<TempRoot> {
    const instance = `t${randomBytes(4).toString('hex').slice(0, 7)}`;
    const dir = await mkdtemp(join(tmpdir(), `g-${instance}-`));
    // Passed through by a container whose root is nobody here.
    await chmod(dir, 0o711);
    return await TempRoot.at({ dir, instance, state: join(dir, 'run'), netnsDir: join(dir, 'netns'), ...options });
  }

  /** Places that another process finds again. A real daemon's state and namespaces are on a tmpfs. */
  static async at(places: Places): Promise<TempRoot> {
    const root = new TempRoot(places);
    const { data, state, logRoot, podsDir, netnsDir, cniConfDir, cniDataDir, registryConfigDir } = root;
    for (const path of [data, state, logRoot, podsDir, netnsDir, cniConfDir, cniDataDir, registryConfigDir]) {
      await mkdir(path, { recursive: true });
    }
    return root;
  }

  /** `--root`. */
  get data(): string {
    return join(this.dir, 'root');
  }
  get logRoot(): string {
    return join(this.dir, 'logs');
  }
  get podsDir(): string {
    return join(this.data, 'pods');
  }
  get cniConfDir(): string {
    return join(this.dir, 'cni/net.d');
  }
  /** Where a CNI configuration made by {@link writeCniConfig} keeps its addresses. */
  get cniDataDir(): string {
    return join(this.dir, 'cni/data');
  }
  get registryConfigDir(): string {
    return join(this.dir, 'certs.d');
  }
  get cdiSpecDir(): string {
    return join(this.data, 'cdi');
  }
  get cgroupParent(): string {
    return this.cgroupDriver === 'systemd' ? `/gantry_${this.instance}.slice` : this.plainCgroupParent;
  }
  /** With the driver cgroupfs. */
  get plainCgroupParent(): string {
    return `/gantry-${this.instance}`;
  }
  get criSocket(): string {
    return join(this.state, 'gantry.sock');
  }
  get apiSocket(): string {
    return join(this.state, 'api.sock');
  }

  /** gantryd's flags for these places. */
  flags(): string[] {
    return [
      `--root=${this.data}`,
      `--state=${this.state}`,
      `--log-root=${this.logRoot}`,
      `--pods-dir=${this.podsDir}`,
      `--netns-dir=${this.netnsDir}`,
      `--cni-conf-dir=${this.cniConfDir}`,
      `--registry-config-dir=${this.registryConfigDir}`,
      `--cdi-spec-dir=${this.cdiSpecDir}`,
      `--cgroup-parent=${this.cgroupParent}`,
      `--cgroup-driver=${this.cgroupDriver}`,
      `--cri-listen=unix://${this.criSocket}`,
      `--api-listen=unix://${this.apiSocket}`,
      `--instance=${this.instance}`,
    ];
  }

  /** Lets images of `host` (`127.0.0.1:5000`) be pulled over plain http. */
  async allowPlainHttp(host: string): Promise<void> {
    const folder = join(this.registryConfigDir, host);
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, 'hosts.toml'), `server = "http://${host}"\n`);
  }

  /** A bridge network of the test's own: its name, its bridge and its data carry the instance id. With `ipMasq` each pod has a rule. */
  async writeCniConfig(subnet: string, { ipMasq = false } = {}): Promise<void> {
    const bridge = {
      type: 'bridge',
      bridge: `br${this.instance}`,
      isGateway: true,
      ipMasq,
      ipam: { type: 'host-local', dataDir: this.cniDataDir, ranges: [[{ subnet }]], routes: [{ dst: '0.0.0.0/0' }] },
    };
    const portmap = { type: 'portmap', capabilities: { portMappings: true } };
    await writeFile(
      join(this.cniConfDir, '10-test.conflist'),
      JSON.stringify({ cniVersion: '1.0.0', name: `net-${this.instance}`, plugins: [bridge, portmap] }),
    );
  }

  /** For {@link LeakCheck}. Images and layers are caches: begin the check after they were pulled. */
  leakRoots(more: readonly FolderRoot[] = []): LeakRoots {
    const folder = (path: string): FolderRoot => ({ path, ignore: NOT_A_LEAK });
    return {
      markers: [this.instance],
      mountRoots: [this.dir],
      netnsDirs: [this.netnsDir],
      cniDataDirs: [this.cniDataDir, join(this.data, 'cni'), join(this.state, 'cni')],
      cgroupParents: [this.cgroupParent],
      folders: [folder(this.data), folder(this.state), ...more],
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#killAll();
    await this.#unmountAll();
    await this.#removeNetwork();
    await this.#stopUnits();
    for (const folder of (await cgroupFolders([this.cgroupParent, this.plainCgroupParent])).reverse())
      await rmdir(folder).catch(() => undefined);
    for (const { path } of await claimFiles([this.instance])) await rm(path, { force: true });
    await rmdir(CLAIMS_FOLDER).catch(() => undefined);
    await rm(this.dir, { recursive: true, force: true });
  }

  async #killAll(): Promise<void> {
    for (let turn = 0; turn < 50; turn++) {
      const left = (await markedProcesses([this.instance])).filter(({ state }) => state !== 'Z');
      if (left.length === 0) return;
      for (const found of left) {
        try {
          if (await isAlive(found)) process.kill(found.pid, 'SIGKILL');
        } catch {
          // gone meanwhile
        }
      }
      await new Promise((next) => setTimeout(next, 100));
    }
  }

  async #stopUnits(): Promise<void> {
    const units = (await look(this.leakRoots())).get('units') ?? [];
    if (units.length > 0) await execFile(op, 'systemctl', ['stop', ...units]).catch(() => undefined);
  }

  async #removeNetwork(): Promise<void> {
    const left = await look(this.leakRoots());
    for (const link of left.get('links') ?? []) {
      await execFile(op, 'ip', ['link', 'delete', link.split(' ')[0] ?? '']).catch(() => undefined);
    }
    for (const found of left.get('iptables rules') ?? []) {
      const [, program = '', table = '', rule = ''] = /^(\S+) (\S+): -A (.*)$/.exec(found) ?? [];
      if (rule === '') continue;
      const words = (rule.match(/"(?:\\.|[^"])*"|\S+/g) ?? []).map((word) =>
        word.startsWith('"') ? word.slice(1, -1).replace(/\\(.)/g, '$1') : word,
      );
      await execFile(op, program, ['-w', '-t', table, '-D', ...words]).catch(() => undefined);
      // A pod's own chain, which the plug-in that made it names by a hash.
      const chain = /^CNI-(DN-)?[0-9a-f]+$/.exec(words.at(-1) ?? '')?.[0];
      if (chain === undefined) continue;
      for (const command of ['-F', '-X']) {
        await execFile(op, program, ['-w', '-t', table, command, chain]).catch(() => undefined);
      }
    }
  }

  /** Nothing is deleted while anything is mounted below: what is behind a mount may not be the test's own. */
  async #unmountAll(): Promise<void> {
    for (let turn = 0; turn < 5; turn++) {
      const left = mountsBelow(await readMountinfo(), this.dir);
      if (left.length === 0) return;
      for (const { mountPoint } of left) await execFile(op, 'umount', ['-l', mountPoint]);
    }
    const left = mountsBelow(await readMountinfo(), this.dir).map(({ mountPoint }) => mountPoint);
    if (left.length > 0) throw new Error(`still mounted, so nothing is deleted: ${left.join(', ')}`);
  }
}

function driverOfTests(): CgroupDriver {
  const named = process.env['GANTRY_TEST_CGROUP_DRIVER'];
  return named === 'systemd' ? named : 'cgroupfs';
}
