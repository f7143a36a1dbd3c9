import { access, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { execFile } from '../../src/lib/exec.ts';
import { silentLog } from '../../src/lib/log.ts';
import type { TarMember } from './tar.ts';

const BUSYBOX = ['/bin/busybox', '/usr/bin/busybox'];
const op = { signal: new AbortController().signal, log: silentLog };

/**
 * The members of a root file system made of this machine's busybox: the program, the libraries that it needs, a link for
 * each applet, /etc/passwd with root and nobody, /tmp.
 */
export async function busyboxRootfs(): Promise<TarMember[]> {
  const busybox = await firstThatExists(BUSYBOX);
  const { stdout: applets } = await execFile(op, busybox, ['--list']);
  const files = [{ name: 'bin/busybox', from: busybox }];
  for (const library of await librariesOf(busybox)) files.push({ name: library.slice(1), from: library });
  const folders = new Set(['bin', 'dev', 'etc', 'proc', 'root', 'sys', 'tmp', 'var', 'var/run']);
  for (const { name } of files) {
    for (let folder = dirname(name); folder !== '.'; folder = dirname(folder)) folders.add(folder);
  }
  const members: TarMember[] = [...folders]
    .sort()
    .map((name) => ({ name: `${name}/`, type: 'directory', mode: name === 'tmp' ? 0o1777 : 0o755 }));
  for (const { name, from } of files) members.push({ name, content: await readFile(from), mode: 0o755 });
  for (const applet of applets.split('\n').filter((name) => name !== '' && name !== 'busybox')) {
    members.push({ name: `bin/${applet}`, type: 'symlink', linkname: 'busybox', mode: 0o777 });
  }
  const passwd = 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n';
  members.push(
    { name: 'etc/passwd', content: passwd },
    { name: 'etc/group', content: 'root:x:0:\nnogroup:x:65534:\n' },
  );
  return members;
}

/** The paths of the shared libraries and the loader; none for a static program. */
export async function librariesOf(program: string): Promise<string[]> {
  const { code, stdout } = await execFile(op, 'ldd', [program]);
  if (code !== 0) return [];
  return [...stdout.matchAll(/(?:=>\s*)?(\/\S+) \(0x/g)].map((match) => match[1] ?? '');
}

async function firstThatExists(paths: readonly string[]): Promise<string> {
  for (const path of paths) {
    const found = await access(path).then(
      () => true,
      () => false,
    );
    if (found) return path;
  }
  throw new Error(`none of ${paths.join(', ')} is there: apt-get install busybox`);
}
