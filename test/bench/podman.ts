import { mkdir, rmdir, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { findProgram } from '../../src/lib/find-program.ts';
import { execFile } from '../../src/linux/exec.ts';
import { op } from '../support/gantryd.ts';
import { cgroupFolders } from '../support/leak-probes.ts';

/** Where distributions have its helpers, from where the program is. */
const HELPERS = ['../lib/podman', '../libexec/podman'];
/** No option moves it. */
const CGROUP = 'libpod_parent';

/** podman with storage, state, network and configuration of its own, below one folder. To be used in a mount namespace of its own. */
export class Podman implements AsyncDisposable {
  readonly #program: string;
  readonly #options: readonly string[];
  /** Some that somebody else's podman made. */
  readonly #hadCgroups: boolean;
  readonly #env: Readonly<Record<string, string>>;

  private constructor(program: string, options: readonly string[], configuration: string, hadCgroups: boolean) {
    this.#hadCgroups = hadCgroups;
    this.#program = program;
    this.#options = options;
    this.#env = { PATH: process.env['PATH'] ?? '', CONTAINERS_CONF: configuration };
  }

  /** Undefined where it is not installed. */
  static async open(folder: string, ociRuntime: string): Promise<Podman | undefined> {
    const program = await findProgram('podman', (process.env['PATH'] ?? '').split(delimiter));
    if (program === undefined) return undefined;
    const [root, runRoot, tmp, network] = ['root', 'run', 'tmp', 'network'].map((name) => join(folder, name));
    for (const path of [root, runRoot, tmp, network]) await mkdir(path ?? '', { recursive: true });
    const configuration = join(folder, 'containers.conf');
    const helpers = HELPERS.map((path) => join(dirname(program), path));
    await writeFile(configuration, configurationOf(network ?? '', helpers));
    // Its locks are there, under one name for the whole machine.
    await execFile(op, 'mount', ['-t', 'tmpfs', 'podman-locks', '/dev/shm']);
    const hadCgroups = (await cgroupFolders([CGROUP])).length > 0;
    const options = [
      ...['--root', root ?? '', '--runroot', runRoot ?? '', '--tmpdir', tmp ?? '', '--storage-driver', 'overlay'],
      ...['--runtime', ociRuntime, '--cgroup-manager', 'cgroupfs'],
    ];
    return new Podman(program, options, configuration, hadCgroups);
  }

  /** An image of a root file system. */
  async importImage(tar: string, name: string): Promise<void> {
    await this.#run('import', tar, name);
  }

  /** Returns when the pod's containers run. */
  async play(manifest: string): Promise<void> {
    await this.#run('kube', 'play', manifest);
  }

  async down(manifest: string): Promise<void> {
    await this.#run('kube', 'down', manifest);
  }

  async #run(...args: readonly string[]): Promise<void> {
    const { code, stderr } = await execFile(op, this.#program, [...this.#options, ...args], { env: this.#env });
    if (code !== 0) throw new Error(`podman ${args.join(' ')}: ${stderr}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#run('pod', 'rm', '--all', '--force', '--time', '0').catch(() => undefined);
    if (this.#hadCgroups) return;
    for (const path of (await cgroupFolders([CGROUP])).reverse()) await rmdir(path).catch(() => undefined);
  }
}

/** The limit on files is one that it may set: its own default is more than a container's root can. */
function configurationOf(networkFolder: string, helpers: readonly string[]): string {
  return `[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
events_logger = "file"
helper_binaries_dir = [${helpers.map((path) => JSON.stringify(path)).join(', ')}]
[network]
network_config_dir = ${JSON.stringify(networkFolder)}
`;
}
