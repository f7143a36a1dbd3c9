import { lstat, mkdtemp, readdir, readFile, readlink, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeBusyboxRootfs } from '../../scripts/busybox-rootfs.ts';
import type { TarMember } from './tar.ts';

/** The members of the root filesystem that `npm start` makes its image of, for a tar. Needs busybox, not root. */
export async function busyboxRootfs(): Promise<TarMember[]> {
  const dir = await mkdtemp(join(tmpdir(), 'gantry-busybox-'));
  try {
    await makeBusyboxRootfs(dir);
    const names = (await readdir(dir, { recursive: true })).sort();
    return await Promise.all(names.map((name) => memberOf(dir, name)));
  } finally {
    await rm(dir, { recursive: true });
  }
}

async function memberOf(dir: string, name: string): Promise<TarMember> {
  const path = join(dir, name);
  const found = await lstat(path);
  const mode = found.mode & 0o7777;
  if (found.isDirectory()) return { name: `${name}/`, type: 'directory', mode };
  if (found.isSymbolicLink()) return { name, type: 'symlink', linkname: await readlink(path), mode };
  return { name, content: await readFile(path), mode };
}
