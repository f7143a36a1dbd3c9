import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execFile } from '../../src/linux/exec.ts';
import { op } from '../support/gantryd.ts';

const CHECKOUT = new URL('../..', import.meta.url).pathname;

/** Gantry as it is installed, which starts sooner and is smaller than a checkout. */
export class BuiltPackage implements AsyncDisposable {
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  static async make(): Promise<BuiltPackage> {
    const folder = await mkdtemp(join(tmpdir(), 'gantry-built-'));
    const built = new BuiltPackage(folder);
    const { code, stderr } = await execFile(op, process.execPath, [join(CHECKOUT, 'scripts/build.ts'), folder]);
    if (code !== 0) {
      await built[Symbol.asyncDispose]();
      throw new Error(`the package cannot be built: ${stderr}`);
    }
    await symlink(join(CHECKOUT, 'node_modules'), join(folder, 'package/node_modules'));
    return built;
  }

  /** `gantry` or `gantryd`. */
  program(name: 'gantry' | 'gantryd'): string {
    return join(this.#folder, 'package/bin', name);
  }

  async version(): Promise<string> {
    const text = await readFile(join(this.#folder, 'package/package.json'), 'utf8');
    return (JSON.parse(text) as { version: string }).version;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }
}
