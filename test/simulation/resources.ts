import type { ExitRecord } from '../../src/runtime/task/exit-status.ts';

/** What a machine holds beside processes: each by its path or id. Every method takes effect at once. */
export class Resources {
  /** On disk: they outlive a boot. */
  readonly exitFiles = new Map<string, ExitRecord>();
  readonly snapshots = new Set<string>();
  readonly addresses = new Set<string>();
  readonly folders = new Set<string>();
  readonly mounts = new Set<string>();
  readonly cgroups = new Set<string>();
  /** Path to inode. */
  readonly pins = new Map<string, string>();

  /** Names of the cgroups directly below one. */
  children(path: string): string[] {
    return namesBelow(this.cgroups, path);
  }

  names(path: string): string[] {
    return namesBelow(this.folders, path);
  }

  removeFolder(path: string): void {
    for (const mount of this.mounts) if (isIn(mount, path)) throw new Error(`${mount} is mounted`);
    for (const one of [...this.folders]) if (isIn(one, path)) this.folders.delete(one);
  }

  removeCgroup(path: string): void {
    for (const one of [...this.cgroups]) if (isIn(one, path)) this.cgroups.delete(one);
  }

  /** The power goes: what is on disk stays. */
  reboot(volatileFolder: string): void {
    this.mounts.clear();
    this.cgroups.clear();
    this.pins.clear();
    for (const one of [...this.folders]) if (one.startsWith(volatileFolder)) this.folders.delete(one);
  }
}

export function isIn(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

function namesBelow(paths: ReadonlySet<string>, folder: string): string[] {
  const below = [...paths].filter((one) => one.startsWith(`${folder}/`));
  return [...new Set(below.map((one) => one.slice(folder.length + 1).split('/')[0] ?? ''))];
}
