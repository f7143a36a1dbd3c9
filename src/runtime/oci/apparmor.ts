import { readFile } from 'node:fs/promises';
import type { Op } from '../../lib/abort.ts';
import { failedPrecondition } from '../../lib/errors.ts';
import { execFile } from '../../linux/exec.ts';
import { DEFAULT_APPARMOR_PROFILE, DEFAULT_APPARMOR_TEXT } from './apparmor-profile.ts';

export interface AppArmorDeps {
  /** The kernel has it, and it is on. */
  readonly enabled: boolean;
  /** Path of `apparmor_parser`, which alone can tell the kernel of a profile; absent: it is not installed. */
  readonly parser?: string;
  /** Default: the kernel's own list. */
  readonly listPath?: string;
}

const LOADED_PROFILES = '/sys/kernel/security/apparmor/profiles';

/** The profiles that the kernel knows, and our own, which is loaded when the first container needs it, once per boot. */
export class AppArmor {
  readonly #deps: AppArmorDeps;

  constructor(deps: AppArmorDeps) {
    this.#deps = deps;
  }

  /**
   * For containers that ask for RuntimeDefault, or for nothing. Undefined, which is unconfined, on a host without AppArmor or without the
   * program that loads profiles: the field has it so. Throws FailedPrecondition when the kernel does not take it.
   */
  async defaultProfile(op: Op): Promise<string | undefined> {
    const { enabled, parser } = this.#deps;
    if (!enabled) return undefined;
    if ((await this.#loaded())?.has(DEFAULT_APPARMOR_PROFILE) === true) return DEFAULT_APPARMOR_PROFILE;
    if (parser === undefined) return undefined;
    // Replacing one that is there is no change: two containers may be the first.
    const args = ['--replace', '--skip-cache', '--quiet'];
    const { code, stderr, stdout } = await execFile(op, parser, args, { input: DEFAULT_APPARMOR_TEXT });
    if (code === 0) return DEFAULT_APPARMOR_PROFILE;
    const words = (stderr.trim() || stdout.trim() || `ended with code ${String(code)}`).replaceAll('\n', '; ');
    throw failedPrecondition(`AppArmor profile ${DEFAULT_APPARMOR_PROFILE} could not be loaded: ${words}`);
  }

  /** Throws FailedPrecondition where a container could not be confined by it: to run without would be less than was asked for. */
  async demand(name: string): Promise<void> {
    if (!this.#deps.enabled) {
      throw failedPrecondition(`AppArmor profile ${name}: this host has no AppArmor, or it is switched off`);
    }
    const loaded = await this.#loaded();
    if (loaded !== undefined && !loaded.has(name)) {
      throw failedPrecondition(`AppArmor profile ${name} is not loaded on this host`);
    }
  }

  /** Undefined where the list cannot be read: then the OCI runtime finds out. */
  async #loaded(): Promise<ReadonlySet<string> | undefined> {
    const text = await readFile(this.#deps.listPath ?? LOADED_PROFILES, 'utf8').catch(() => undefined);
    return text === undefined ? undefined : namesIn(text);
  }
}

/** `name (mode)` on each line; a name may have spaces. */
function namesIn(text: string): ReadonlySet<string> {
  return new Set(text.split('\n').flatMap((line) => /^(.+) \([a-z]+\)$/.exec(line)?.[1] ?? []));
}
