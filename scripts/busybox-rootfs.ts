/**
 * A root filesystem from this machine's busybox: the binary, the libraries that it needs, a link for each applet and
 * the few files that programs look for. Needs no network and, but for the owner of the files, no root.
 *
 *     node scripts/busybox-rootfs.ts DIRECTORY
 *
 * The same busybox gives the same tree, times included, so that an image made from it keeps its id.
 */
import { chmod, copyFile, lutimes, mkdir, readdir, realpath, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { failedPrecondition, messageOf } from '../src/lib/errors.ts';
import { execFile } from '../src/linux/exec.ts';
import { silentLog } from '../src/lib/log.ts';

const WHERE_BUSYBOX_IS = ['/usr/bin/busybox', '/bin/busybox'];

const DIRECTORIES: Readonly<Record<string, number>> = {
  bin: 0o755,
  dev: 0o755,
  etc: 0o755,
  home: 0o755,
  mnt: 0o755,
  proc: 0o555,
  root: 0o700,
  run: 0o755,
  sys: 0o555,
  tmp: 0o1777,
  usr: 0o755,
  var: 0o755,
  'var/log': 0o755,
  'var/tmp': 0o1777,
  www: 0o755,
};

/** One directory of programs under all the names that a PATH may have. */
const LINKS: Readonly<Record<string, string>> = {
  sbin: 'bin',
  'usr/bin': '../bin',
  'usr/sbin': '../bin',
  'var/run': '../run',
};

const FILES: Readonly<Record<string, string>> = {
  'etc/group': 'root:x:0:\ndaemon:x:1:\ntty:x:5:\nwww-data:x:33:\nusers:x:100:\nuser:x:1000:\nnogroup:x:65534:\n',
  'etc/nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
  'etc/passwd':
    'root:x:0:0:root:/root:/bin/sh\n' +
    'daemon:x:1:1:daemon:/:/bin/false\n' +
    'www-data:x:33:33:www-data:/www:/bin/false\n' +
    'user:x:1000:1000:user:/home:/bin/sh\n' +
    'nobody:x:65534:65534:nobody:/:/bin/false\n',
  'www/index.html': '<!doctype html>\n<title>Gantry</title>\n<h1>It works.</h1>\n',
};

/** Older glibc loads these by name when it looks up a user or a host; newer ones have them built in. */
const LOADED_BY_NAME = ['libnss_files.so.2', 'libnss_dns.so.2'];

export interface BusyboxRootfsOptions {
  /** Default: Debian's busybox, wherever this release keeps it. */
  readonly busybox?: string;
}

/**
 * Fills an existing, empty directory.
 * @throws FailedPrecondition when there is no busybox, or none that runs.
 */
export async function makeBusyboxRootfs(directory: string, options: BusyboxRootfsOptions = {}): Promise<void> {
  const busybox = options.busybox ?? (await findBusybox());
  const applets = await run(busybox, ['--list']);
  const { mtime } = await stat(busybox);
  await chmod(directory, 0o755);
  for (const [path, mode] of Object.entries(DIRECTORIES)) {
    await mkdir(join(directory, path));
    await chmod(join(directory, path), mode);
  }
  for (const [path, target] of Object.entries(LINKS)) await symlink(target, join(directory, path));
  for (const [path, content] of Object.entries(FILES)) await writeFile(join(directory, path), content, { mode: 0o644 });
  await copyProgram(busybox, join(directory, 'bin/busybox'));
  for (const library of await librariesOf(busybox)) {
    await mkdir(join(directory, dirname(library)), { recursive: true });
    await copyProgram(library, join(directory, library));
  }
  for (const applet of applets.split('\n')) {
    if (/^[\w[.-]+$/.test(applet) && applet !== 'busybox')
      await symlink('/bin/busybox', join(directory, 'bin', applet));
  }
  await setTimes(directory, mtime);
}

async function findBusybox(): Promise<string> {
  for (const path of WHERE_BUSYBOX_IS) {
    if (await exists(path)) return path;
  }
  throw failedPrecondition('busybox is not installed (apt-get install busybox)');
}

/** As paths of the host, which are those that the loader asks for. None for a static binary. */
async function librariesOf(binary: string): Promise<string[]> {
  const op = { signal: new AbortController().signal, log: silentLog };
  const { code, stdout } = await execFile(op, 'ldd', [binary]);
  if (code !== 0) return []; // "not a dynamic executable"
  const needed = [...stdout.matchAll(/(?:=> |^\s*)(\/\S+) \(0x/gm)].map(([, path]) => path ?? '');
  const libc = needed.find((path) => path.includes('/libc.so'));
  const byName = libc === undefined ? [] : LOADED_BY_NAME.map((name) => join(dirname(libc), name));
  const found: string[] = [];
  for (const path of new Set([...needed, ...byName])) if (await exists(path)) found.push(path);
  return found;
}

async function copyProgram(from: string, to: string): Promise<void> {
  await copyFile(await realpath(from), to);
  await chmod(to, 0o755);
}

async function setTimes(directory: string, time: Date): Promise<void> {
  for (const entry of await readdir(directory, { recursive: true })) await lutimes(join(directory, entry), time, time);
  await lutimes(directory, time, time);
}

async function run(file: string, args: readonly string[]): Promise<string> {
  const op = { signal: new AbortController().signal, log: silentLog };
  const { code, stdout, stderr } = await execFile(op, file, args);
  if (code !== 0) throw failedPrecondition(`${file} does not run: ${stderr.trim() || `exit code ${String(code)}`}`);
  return stdout;
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  );
}

if (import.meta.main) {
  const [directory] = process.argv.slice(2);
  if (directory === undefined) {
    console.error('usage: busybox-rootfs.ts DIRECTORY');
    process.exitCode = 1;
  } else {
    await mkdir(directory, { recursive: true });
    await makeBusyboxRootfs(directory).catch((error: unknown) => {
      console.error(messageOf(error));
      process.exitCode = 1;
    });
  }
}
