import os from 'node:os';
import type { Op } from '../../lib/abort.ts';
import { errnoOf, failedPrecondition, invalidArgument, isKind, messageOf, notFound } from '../../lib/errors.ts';
import type { HostFiles } from '../../linux/host-files.ts';
import { readNamedFile } from '../../linux/read-named-file.ts';
import { kernelAtLeast } from './kernel-version.ts';
import { FALLBACK_SECCOMP_PROFILE } from './seccomp-fallback.ts';
import type { SeccompProfile, SeccompRule } from './seccomp-profile.ts';
import type { OciSeccomp, OciSyscallRule } from './spec.ts';

export interface SeccompTarget {
  /** Node's name: `x64`, `arm64` … */
  readonly arch: string;
  /** `os.release()`. */
  readonly kernel: string;
  /** The container's effective capabilities. */
  readonly capabilities: readonly string[];
}

/** The largest that are in use have some tens of kilobytes. */
const LARGEST_PROFILE_BYTES = 1 << 20;

/** Where distributions put the default profile (containers-common). */
const DEFAULT_PROFILE_PATHS = ['/etc/containers/seccomp.json', '/usr/share/containers/seccomp.json'];

const ARCHITECTURES: Readonly<Record<string, { readonly go: string; readonly scmp: string }>> = {
  x64: { go: 'amd64', scmp: 'SCMP_ARCH_X86_64' },
  arm64: { go: 'arm64', scmp: 'SCMP_ARCH_AARCH64' },
  arm: { go: 'arm', scmp: 'SCMP_ARCH_ARM' },
  ia32: { go: 'x86', scmp: 'SCMP_ARCH_X86' },
  ppc64: { go: 'ppc64le', scmp: 'SCMP_ARCH_PPC64LE' },
  riscv64: { go: 'riscv64', scmp: 'SCMP_ARCH_RISCV64' },
  s390x: { go: 's390x', scmp: 'SCMP_ARCH_S390X' },
};

/** Turns a profile into what goes into a container's specification. Pure. */
export function resolveSeccomp(profile: SeccompProfile, target: SeccompTarget): OciSeccomp {
  const arch = ARCHITECTURES[target.arch];
  const mapped = (profile.archMap ?? []).find((entry) => entry.architecture === arch?.scmp);
  const architectures =
    mapped === undefined
      ? (profile.architectures ?? (arch === undefined ? [] : [arch.scmp]))
      : [mapped.architecture, ...(mapped.subArchitectures ?? [])];
  const syscalls = (profile.syscalls ?? [])
    .filter((rule) => applies(rule, arch?.go ?? target.arch, target))
    .map(plainRule);
  return {
    defaultAction: profile.defaultAction,
    ...(profile.defaultErrnoRet === undefined ? {} : { defaultErrnoRet: profile.defaultErrnoRet }),
    ...(architectures.length > 0 ? { architectures } : {}),
    ...(profile.flags == null || profile.flags.length === 0 ? {} : { flags: profile.flags }),
    syscalls,
  };
}

function applies(rule: SeccompRule, arch: string, target: SeccompTarget): boolean {
  const { includes, excludes } = rule;
  if (isSet(includes?.arches) && !includes.arches.includes(arch)) return false;
  if (isSet(includes?.caps) && !includes.caps.every((cap) => target.capabilities.includes(cap))) return false;
  if (includes?.minKernel != null && !kernelAtLeast(target.kernel, includes.minKernel)) return false;
  if (isSet(excludes?.arches) && excludes.arches.includes(arch)) return false;
  if (isSet(excludes?.caps) && excludes.caps.some((cap) => target.capabilities.includes(cap))) return false;
  return !(excludes?.minKernel != null && kernelAtLeast(target.kernel, excludes.minKernel));
}

function isSet(list: readonly string[] | null | undefined): list is readonly string[] {
  return list != null && list.length > 0;
}

function plainRule(rule: SeccompRule): OciSyscallRule {
  return {
    names: rule.names ?? (rule.name === undefined ? [] : [rule.name]),
    action: rule.action,
    ...(rule.errnoRet == null ? {} : { errnoRet: rule.errnoRet }),
    ...(rule.args == null || rule.args.length === 0 ? {} : { args: rule.args }),
  };
}

/** Throws InvalidArgument for what is no profile. */
export function parseSeccompProfile(text: string, source: string): SeccompProfile {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw invalidArgument(`seccomp profile ${source}: ${messageOf(error)}`);
  }
  const profile = value as Partial<SeccompProfile> | null;
  if (typeof profile?.defaultAction !== 'string' || !Array.isArray(profile.syscalls ?? [])) {
    throw invalidArgument(`seccomp profile ${source}: needs a defaultAction and a list of syscalls`);
  }
  return profile as SeccompProfile;
}

/** The node's default profile, read once, and profiles of the node's own files. */
export class SeccompProfiles {
  readonly #default: SeccompProfile;
  /** Where the default comes from; undefined: Gantry's own, because no file was found. */
  readonly defaultSource: string | undefined;

  private constructor(profile: SeccompProfile, source: string | undefined) {
    this.#default = profile;
    this.defaultSource = source;
  }

  static async load(paths: readonly string[] = DEFAULT_PROFILE_PATHS): Promise<SeccompProfiles> {
    for (const path of paths) {
      try {
        return new SeccompProfiles(parseSeccompProfile(await readNamedFile(path, LARGEST_PROFILE_BYTES), path), path);
      } catch (error) {
        if (errnoOf(error) !== 'ENOENT') throw failedPrecondition(`default ${messageOf(error)}`, { cause: error });
      }
    }
    return new SeccompProfiles(FALLBACK_SECCOMP_PROFILE, undefined);
  }

  /** CRI `RuntimeDefault`. */
  forCapabilities(capabilities: readonly string[]): OciSeccomp {
    return resolveSeccomp(this.#default, thisHost(capabilities));
  }

  /** CRI `Localhost`. NotFound when there is no such file, InvalidArgument for what is none, is too large or no profile. */
  async fromFile(
    op: Op,
    files: Pick<HostFiles, 'readFile'>,
    path: string,
    capabilities: readonly string[],
  ): Promise<OciSeccomp> {
    let text: string;
    try {
      text = await files.readFile(op, path, LARGEST_PROFILE_BYTES);
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') throw notFound(`seccomp profile ${path}: no such file`);
      throw isKind(error, 'InvalidArgument') ? invalidArgument(`seccomp profile ${messageOf(error)}`) : error;
    }
    return resolveSeccomp(parseSeccompProfile(text, path), thisHost(capabilities));
  }
}

function thisHost(capabilities: readonly string[]): SeccompTarget {
  return { arch: process.arch, kernel: os.release(), capabilities };
}
