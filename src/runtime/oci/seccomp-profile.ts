import type { OciSyscallArg } from './spec.ts';

/** The field's profile format: an OCI profile whose rules may hold for some capabilities, kernels and architectures only. */
export interface SeccompProfile {
  readonly defaultAction: string;
  readonly defaultErrnoRet?: number;
  readonly architectures?: readonly string[] | null;
  readonly archMap?:
    readonly { readonly architecture: string; readonly subArchitectures?: readonly string[] | null }[] | null;
  readonly flags?: readonly string[] | null;
  readonly syscalls?: readonly SeccompRule[] | null;
}

export interface SeccompRule {
  readonly names?: readonly string[] | null;
  /** Old profiles have one name. */
  readonly name?: string;
  readonly action: string;
  readonly errnoRet?: number | null;
  readonly args?: readonly OciSyscallArg[] | null;
  readonly includes?: SeccompFilter | null;
  readonly excludes?: SeccompFilter | null;
}

interface SeccompFilter {
  readonly arches?: readonly string[] | null;
  readonly caps?: readonly string[] | null;
  /** `major.minor`, of the oldest kernel that the rule is for. */
  readonly minKernel?: string | null;
}
