import { readFile, statfs } from 'node:fs/promises';
import { cpus, release, totalmem } from 'node:os';
import { tmpdir } from 'node:os';
import { detectCgroups } from '../../src/linux/cgroups.ts';
import { execFile } from '../../src/linux/exec.ts';
import { op } from '../support/gantryd.ts';

const GIB = 2 ** 30;
/** Magic numbers of statfs. */
const FILE_SYSTEMS: Readonly<Record<number, string>> = {
  0xef53: 'ext4',
  0x9123683e: 'btrfs',
  0x58465342: 'xfs',
  0x1021994: 'tmpfs',
  0x794c7630: 'overlayfs',
};

/** What figures have to be read with: `key: value` lines. */
export async function describeMachine(ociRuntime: string): Promise<string[]> {
  const cgroups = await detectCgroups();
  const layout = cgroups.v1.length === 0 ? 'v2' : cgroups.unified === undefined ? 'v1' : 'v1 and v2 (hybrid)';
  const disk = FILE_SYSTEMS[(await statfs(tmpdir())).type] ?? 'another file system';
  const os = /^PRETTY_NAME="(.*)"$/m.exec(await readFile('/etc/os-release', 'utf8').catch(() => ''))?.[1] ?? 'Linux';
  return [
    `processors: ${String(cpus().length)} × ${cpus()[0]?.model.trim() ?? 'unknown'}`,
    `memory: ${(totalmem() / GIB).toFixed(1)} GiB`,
    `system: ${os}, kernel ${release()}, cgroup ${layout}, data on ${disk}`,
    `containerd: ${await firstLine('containerd', '--version')}`,
    `OCI runtime: ${await firstLine(ociRuntime, '--version')}`,
    `monitor: ${await firstLine('conmon', '--version')}`,
    `Node.js: ${process.version}`,
  ];
}

async function firstLine(program: string, ...args: readonly string[]): Promise<string> {
  const { stdout } = await execFile(op, program, args).catch(() => ({ stdout: 'not there' }));
  return stdout.trim().split('\n')[0] ?? '';
}
