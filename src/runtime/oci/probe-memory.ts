import { readFile, realpath, stat } from 'node:fs/promises';
import { isAbsolute } from 'node:path';
import { removeTemporariesOf, writeFileAtomic } from '../../lib/atomic-file.ts';
import { findProgram } from '../../lib/find-program.ts';
import type { Candidate, RefusedRuntime, WorkingRuntime } from './probe.ts';

export type ProbeOutcome = WorkingRuntime | RefusedRuntime;

interface Noted {
  /** Of the program's file: another one is another program. */
  readonly file: string;
  readonly outcome: ProbeOutcome;
}

interface Content {
  readonly stamp: string;
  readonly noted: Readonly<Record<string, Noted>>;
}

/**
 * What the probes of OCI runtimes have found, so that a daemon that starts again need not run containers before it answers. Only of this
 * boot and this version, and of programs that are still the same files. Losing it costs a probe.
 */
export class ProbeMemory {
  readonly #path: string;
  readonly #stamp: string;
  readonly #noted: Map<string, Noted>;

  private constructor(path: string, { stamp, noted }: Content) {
    this.#path = path;
    this.#stamp = stamp;
    this.#noted = new Map(Object.entries(noted));
  }

  /** @param stamp what is the same for as long as an outcome may be believed */
  static async open(path: string, stamp: string): Promise<ProbeMemory> {
    await removeTemporariesOf(path);
    return new ProbeMemory(path, (await read(path, stamp)) ?? { stamp, noted: {} });
  }

  async recall(candidate: Candidate): Promise<ProbeOutcome | undefined> {
    const noted = this.#noted.get(keyOf(candidate));
    if (noted === undefined) return undefined;
    return noted.file === (await fileOf(candidate)) ? noted.outcome : undefined;
  }

  async note(candidate: Candidate, outcome: ProbeOutcome): Promise<void> {
    const file = await fileOf(candidate);
    // Whether there is one now is known without a probe.
    if (file === undefined) this.#noted.delete(keyOf(candidate));
    else this.#noted.set(keyOf(candidate), { file, outcome });
    const content: Content = { stamp: this.#stamp, noted: Object.fromEntries(this.#noted) };
    await writeFileAtomic(this.#path, JSON.stringify(content), { sync: false });
  }
}

function keyOf({ name, program }: Candidate): string {
  return `${name}=${program}`;
}

async function read(path: string, stamp: string): Promise<Content | undefined> {
  try {
    const content = JSON.parse(await readFile(path, 'utf8')) as Partial<Content> | null;
    // The stamp names the version that wrote it, so the rest has the shape that this one gives it.
    return content?.stamp === stamp && content.noted !== undefined ? { stamp, noted: content.noted } : undefined;
  } catch {
    return undefined;
  }
}

async function fileOf({ program }: Candidate): Promise<string | undefined> {
  const path = isAbsolute(program) ? program : await findProgram(program);
  if (path === undefined) return undefined;
  try {
    const real = await realpath(path);
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(real, { bigint: true });
    return [path, real, dev, ino, size, mtimeNs, ctimeNs].join(' ');
  } catch {
    return undefined;
  }
}
