import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Op } from '../../../src/lib/abort.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { mountsBelow, parseMountinfo, type MountInfo } from '../../../src/linux/mountinfo.ts';

export const needsRoot = { skip: process.getuid?.() !== 0 && 'needs root' };

export const op: Op = { signal: new AbortController().signal, log: silentLog };

export function mountTable(): MountInfo[] {
  return parseMountinfo(readFileSync('/proc/self/mountinfo', 'utf8'));
}

/** A directory of its own; whatever is mounted in it is taken off at the end, without touching what is behind it. */
export class Scratch implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), 'gantry-linux-'));

  join(...names: string[]): string {
    return join(this.path, ...names);
  }

  dir(...names: string[]): string {
    const path = this.join(...names);
    mkdirSync(path, { recursive: true });
    return path;
  }

  file(name: string, content = name): string {
    const path = this.join(name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
    return path;
  }

  mounts(): MountInfo[] {
    return mountsBelow(mountTable(), this.path);
  }

  [Symbol.dispose](): void {
    for (const { mountPoint } of this.mounts()) spawnSync('umount', ['-l', mountPoint]);
    const left = this.mounts();
    if (left.length > 0) throw new Error(`still mounted: ${left.map((info) => info.mountPoint).join(', ')}`);
    rmSync(this.path, { recursive: true, force: true });
  }
}

export function run(file: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(file, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${file} ${args.join(' ')}: ${stderr}`);
  return stdout;
}
