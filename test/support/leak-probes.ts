import { lstat, readdir, readFile, readlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { CLAIMS_FOLDER } from '../../src/gantryd/claims.ts';
import { execFile } from '../../src/linux/exec.ts';
import { silentLog } from '../../src/lib/log.ts';
import { detectCgroups } from '../../src/linux/cgroups.ts';
import { isBelow, readMountinfo } from '../../src/linux/mountinfo.ts';
import { isSystemdHere } from '../../src/linux/systemd-units.ts';
import { listPids, processIdentity, readCmdline } from '../../src/linux/procfs.ts';

/**
 * Where a test's Gantry keeps its things. Every probe looks only there: what another runtime, another Gantry or another
 * test does on the same machine changes no answer.
 */
export interface LeakRoots {
  /**
   * Texts that only this Gantry's things carry: its instance id, its root folder. A process belongs to it when its command
   * line or its cgroup has one of them, a rule of iptables when its text has, an interface when its name has.
   */
  readonly markers: readonly string[];
  /** Nothing may be mounted on or below these. */
  readonly mountRoots: readonly string[];
  readonly netnsDirs: readonly string[];
  /** host-local's data: a folder per network with a file per address. */
  readonly cniDataDirs: readonly string[];
  /** Cgroup paths as on any layout: `/gantry-x`. */
  readonly cgroupParents: readonly string[];
  readonly folders: readonly FolderRoot[];
}

export interface FolderRoot {
  readonly path: string;
  /** How many levels are listed (default 4). */
  readonly depth?: number;
  /** Paths relative to the folder that do not count: locks, logs, a database's companion files. */
  readonly ignore?: RegExp;
}

const DEFAULT_DEPTH = 4;

/** Each probe's findings as sorted lines, one thing a line. */
export type Findings = ReadonlyMap<string, readonly string[]>;

type Probe = (roots: LeakRoots) => Promise<string[]>;

const PROBES: readonly (readonly [name: string, probe: Probe])[] = [
  ['processes', processes],
  ['mounts', mounts],
  ['network namespaces', networkNamespaces],
  ['CNI addresses', cniAddresses],
  ['links', links],
  ['iptables rules', iptablesRules],
  ['cgroups', cgroups],
  ['units', units],
  ['claims', claims],
  ['files and folders', folders],
];

/** What is there now. */
export async function look(roots: LeakRoots): Promise<Findings> {
  const found = await Promise.all(PROBES.map(async ([name, probe]) => [name, (await probe(roots)).sort()] as const));
  return new Map(found);
}

function carries(text: string, markers: readonly string[]): boolean {
  return markers.some((marker) => text.includes(marker));
}

/** Helper processes of a daemon, which it starts and lets go as it needs them. */
const HELPER = /-worker\.(ts|js)\b/;
/** A daemon that a test has restarted is the same finding as the one before. */
const DAEMON = /\/(gantryd\/main|faults\/daemon)\.(ts|js)\b/;

/** Some take their time to reap what they were left, and nobody else can. */
const INIT = 1;

async function processes({ markers }: LeakRoots): Promise<string[]> {
  const found = (await markedProcesses(markers)).filter(
    ({ command, state, ppid }) => !HELPER.test(command) && !(state === 'Z' && ppid === INIT),
  );
  return found.map(({ pid, comm, state, command }) =>
    DAEMON.test(command) ? `gantryd: ${command}` : `${pid} ${comm} ${state}: ${command}`,
  );
}

export interface MarkedProcess {
  readonly pid: number;
  readonly ppid: number;
  readonly startTimeTicks: number;
  readonly comm: string;
  readonly state: string;
  readonly command: string;
}

/** Processes whose command line or cgroup carries a marker; the asking one and those above it never do. */
export async function markedProcesses(markers: readonly string[]): Promise<MarkedProcess[]> {
  const above = new Set<number>();
  for (let pid = process.pid; pid > 0; pid = (await processIdentity(pid))?.ppid ?? 0) above.add(pid);
  const found: MarkedProcess[] = [];
  for (const pid of await listPids()) {
    if (above.has(pid)) continue;
    const command = (await readCmdline(pid).catch(() => undefined))?.join(' ') ?? '';
    const cgroup = await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '');
    if (!carries(command, markers) && !carries(cgroup, markers)) continue;
    const identity = await processIdentity(pid);
    if (identity === undefined) continue;
    const { comm, ppid, state, startTimeTicks } = identity;
    found.push({ pid, ppid, startTimeTicks, comm, state, command: command.slice(0, 300) });
  }
  return found;
}

async function mounts({ mountRoots }: LeakRoots): Promise<string[]> {
  return (await readMountinfo())
    .filter(({ mountPoint }) => mountRoots.some((root) => mountPoint === root || isBelow(mountPoint, root)))
    .map(({ mountPoint, fsType, source, root }) => `${mountPoint} (${fsType} ${source} ${root})`);
}

async function networkNamespaces({ netnsDirs }: LeakRoots): Promise<string[]> {
  return (await Promise.all(netnsDirs.map(names))).flat();
}

async function cniAddresses({ cniDataDirs }: LeakRoots): Promise<string[]> {
  const found: string[] = [];
  for (const dir of cniDataDirs) {
    for (const network of await names(dir)) {
      for (const file of await names(network)) {
        // A file for an address; beside them host-local keeps its lock and the last address that it gave.
        if (!/^[0-9a-f.:]+$/.test(basename(file))) continue;
        found.push(`${file}: ${(await readFile(file, 'utf8').catch(() => '')).replace(/\s+/g, ' ')}`);
      }
    }
  }
  return found;
}

/** Interfaces whose name carries a marker, and the ends of the pods' veth pairs on such a bridge. */
async function links({ markers }: LeakRoots): Promise<string[]> {
  const found: string[] = [];
  for (const path of await names('/sys/class/net')) {
    const bridge = await readlink(join(path, 'master')).then(basename, () => '');
    if (carries(basename(path), markers)) found.push(basename(path));
    else if (carries(bridge, markers)) found.push(`${basename(path)} on ${bridge}`);
  }
  return found;
}

/** As `iptables nat: -A POSTROUTING …`. */
async function iptablesRules({ markers }: LeakRoots): Promise<string[]> {
  const found: string[] = [];
  for (const program of ['iptables', 'ip6tables']) {
    const op = { signal: new AbortController().signal, log: silentLog };
    const text = await execFile(op, `${program}-save`, []).then(
      ({ stdout }) => stdout,
      () => '',
    );
    let table = '';
    for (const line of text.split('\n')) {
      if (line.startsWith('*')) table = line.slice(1);
      else if (carries(line, markers)) found.push(`${program} ${table}: ${line.replace(/ ?\[\d+:\d+\] ?/, '')}`);
    }
  }
  return found;
}

async function cgroups({ cgroupParents }: LeakRoots): Promise<string[]> {
  return await cgroupFolders(cgroupParents);
}

/** Those of systemd's, where it runs the machine. */
async function units({ markers }: LeakRoots): Promise<string[]> {
  if (!(await isSystemdHere())) return [];
  const op = { signal: new AbortController().signal, log: silentLog };
  const { stdout } = await execFile(op, 'systemctl', ['list-units', '--all', '--plain', '--no-legend', 'gantry*']);
  return stdout
    .split('\n')
    .map((line) => line.trim().split(/\s+/)[0] ?? '')
    .filter((name) => name !== '' && carries(name, markers));
}

/** The folders of these cgroups and of all below them, in every hierarchy. */
export async function cgroupFolders(parents: readonly string[]): Promise<string[]> {
  const host = await detectCgroups();
  const trees = [...host.v1.map((tree) => tree.mountPoint), ...(host.unified ? [host.unified.mountPoint] : [])];
  const found: string[] = [];
  const walk = async (folder: string): Promise<void> => {
    if (!(await isFolder(folder))) return;
    found.push(folder);
    for (const name of await names(folder)) await walk(name);
  };
  for (const tree of trees) {
    for (const parent of parents) await walk(join(tree, parent));
  }
  return found;
}

/** What a Gantry has to itself on this machine, and the root that it says it is of. */
async function claims({ markers }: LeakRoots): Promise<string[]> {
  return (await claimFiles(markers)).map(({ path, text }) => `${path}: ${text.trimEnd().split('\n')[0] ?? ''}`);
}

export async function claimFiles(markers: readonly string[]): Promise<{ path: string; text: string }[]> {
  const found: { path: string; text: string }[] = [];
  for (const path of await names(CLAIMS_FOLDER)) {
    const text = await readFile(path, 'utf8').catch(() => '');
    if (carries(path, markers) || carries(text, markers)) found.push({ path, text });
  }
  return found;
}

async function folders({ folders: roots }: LeakRoots): Promise<string[]> {
  const found: string[] = [];
  for (const { path: root, depth = DEFAULT_DEPTH, ignore } of roots) {
    const walk = async (folder: string, levels: number): Promise<void> => {
      for (const path of await names(folder)) {
        if (ignore?.test(path.slice(root.length + 1)) === true) continue;
        const folderBelow = await isFolder(path);
        found.push(folderBelow ? `${path}/` : path);
        if (folderBelow && levels > 1) await walk(path, levels - 1);
      }
    };
    await walk(root, depth);
  }
  return found;
}

/** The full paths in a folder; none when it is not there. */
async function names(folder: string): Promise<string[]> {
  return (await readdir(folder).catch(() => [])).map((name) => join(folder, name));
}

async function isFolder(path: string): Promise<boolean> {
  return await lstat(path).then(
    (stat) => stat.isDirectory(),
    () => false,
  );
}
