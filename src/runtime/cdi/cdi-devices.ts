import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf, failedPrecondition, messageOf } from '../../lib/errors.ts';
import { readNamedFile } from '../../linux/read-named-file.ts';
import type { ContainerEdits } from './container-edits.ts';
import { parseDeviceName } from './device-name.ts';
import { parseSpecFile, type CdiSpec } from './spec-file.ts';

/** What was read of a file, for as long as it does not change. */
interface Read {
  readonly version: string;
  readonly spec: CdiSpec | undefined;
  /** Why it cannot be used. */
  readonly flaw: string | undefined;
}

const LARGEST_FILE_BYTES = 16 << 20;

/**
 * The devices that vendors describe in the folders of the Container Device Interface. A later folder wins over an earlier one; a device
 * that two files of one folder have is nobody's. The folders are looked at whenever a container asks for a device, so a file counts from
 * the moment that it is there; one that has not changed is not read again.
 */
export class CdiDevices {
  readonly #folders: readonly string[];
  readonly #read = new Map<string, Read>();

  constructor(folders: readonly string[]) {
    this.#folders = folders;
  }

  /**
   * What is to be done for these devices (fully qualified names), in order; what a file says for all its devices comes before the first of
   * them. Throws FailedPrecondition, naming devices that there are not and files that cannot be used.
   */
  async editsFor(names: readonly string[]): Promise<ContainerEdits[]> {
    if (names.length === 0) return [];
    const { found, flaws } = await this.#look();
    const edits: ContainerEdits[] = [];
    const seen = new Set<CdiSpec>();
    const missing: string[] = [];
    for (const name of names) {
      const owners = found.get(name) ?? [];
      const [spec] = owners;
      const own = spec?.devices.get(parseDeviceName(name).name);
      if (spec === undefined || own === undefined || owners.length > 1) {
        const why = owners.length > 1 ? ` (in ${owners.map(({ path }) => path).join(' and in ')})` : '';
        missing.push(`${name}${why}`);
        continue;
      }
      if (!seen.has(spec)) edits.push(spec.edits);
      seen.add(spec);
      edits.push(own);
    }
    if (missing.length === 0) return edits;
    const hints = flaws.map((flaw) => `; ${flaw}`).join('');
    throw failedPrecondition(
      `unresolvable CDI devices: ${missing.join(', ')}, looked for in ${this.#folders.join(', ')}${hints}`,
    );
  }

  /** The files that have each device, of the last folder that has it. */
  async #look(): Promise<{ found: ReadonlyMap<string, CdiSpec[]>; flaws: readonly string[] }> {
    const found = new Map<string, CdiSpec[]>();
    const flaws: string[] = [];
    const there = new Set<string>();
    for (const folder of this.#folders) {
      const here = new Map<string, CdiSpec[]>();
      for (const path of await specFiles(folder)) {
        there.add(path);
        const { spec, flaw } = await this.#readFile(path);
        if (flaw !== undefined) flaws.push(flaw);
        for (const name of spec?.devices.keys() ?? []) {
          const full = `${spec?.kind ?? ''}=${name}`;
          here.set(full, [...(here.get(full) ?? []), ...(spec === undefined ? [] : [spec])]);
        }
      }
      for (const [name, specs] of here) found.set(name, specs);
    }
    for (const path of this.#read.keys()) if (!there.has(path)) this.#read.delete(path);
    return { found, flaws };
  }

  async #readFile(path: string): Promise<Read> {
    try {
      const found = await stat(path, { bigint: true });
      if (!found.isFile()) return { version: '', spec: undefined, flaw: `CDI file ${path}: is no regular file` };
      const { ino, size, mtimeNs } = found;
      const version = `${String(ino)} ${String(size)} ${String(mtimeNs)}`;
      const before = this.#read.get(path);
      if (before?.version === version) return before;
      const read = {
        version,
        ...(size > LARGEST_FILE_BYTES ? tooLarge(path) : tryParse(await readNamedFile(path, LARGEST_FILE_BYTES), path)),
      };
      this.#read.set(path, read);
      return read;
    } catch (error) {
      return { version: '', spec: undefined, flaw: `CDI file ${path}: ${messageOf(error)}` };
    }
  }
}

async function specFiles(folder: string): Promise<string[]> {
  try {
    const names = (await readdir(folder)).filter((name) => /\.(json|yaml)$/.test(name) && !name.startsWith('.'));
    return names.toSorted().map((name) => join(folder, name));
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return [];
    throw error;
  }
}

function tryParse(text: string, path: string): Omit<Read, 'version'> {
  try {
    return { spec: parseSpecFile(text, path), flaw: undefined };
  } catch (error) {
    return { spec: undefined, flaw: messageOf(error) };
  }
}

function tooLarge(path: string): Omit<Read, 'version'> {
  return { spec: undefined, flaw: `CDI file ${path}: larger than ${String(LARGEST_FILE_BYTES)} bytes` };
}
