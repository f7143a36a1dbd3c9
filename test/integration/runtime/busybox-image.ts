import { copyFile, mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { execFile } from '../../../src/lib/exec.ts';
import { silentLog } from '../../../src/lib/log.ts';

const op = { signal: new AbortController().signal, log: silentLog };
const APPLETS = [
  'sh',
  'sleep',
  'cat',
  'echo',
  'true',
  'false',
  'ls',
  'id',
  'hostname',
  'ip',
  'kill',
  'mount',
  'ps',
  'env',
  'tail',
  'head',
  'dd',
  'wget',
  'httpd',
  'nc',
  'touch',
  'sysctl',
  'stat',
  'sync',
  'trap',
];

/** A root file system from the host's own busybox and the libraries that it needs: no network, no registry. */
export async function makeBusyboxRootfs(dir: string): Promise<void> {
  for (const folder of ['bin', 'etc', 'tmp', 'proc', 'sys', 'dev', 'root', 'www']) {
    await mkdir(join(dir, folder), { recursive: true, mode: folder === 'tmp' ? 0o1777 : 0o755 });
  }
  const busybox = '/usr/bin/busybox';
  await copyFile(busybox, join(dir, 'bin/busybox'));
  const { stdout } = await execFile(op, 'ldd', [busybox]);
  for (const [library] of stdout.matchAll(/\/\S+\.so\S*/g)) {
    await mkdir(join(dir, dirname(library)), { recursive: true });
    await copyFile(library, join(dir, library));
  }
  for (const applet of APPLETS) await symlink('/bin/busybox', join(dir, 'bin', applet));
  await writeFile(join(dir, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\nweb:x:1000:1001:web:/www:/bin/sh\n');
  await writeFile(join(dir, 'etc/group'), 'root:x:0:\nweb:x:1001:\nextra:x:1002:web\n');
}
