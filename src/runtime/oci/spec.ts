/**
 * The part of the OCI runtime specification's `config.json` that Gantry writes. Names are the specification's own,
 * because the object is serialized as it is.
 */

/** The lowest version that has every field below: crun 1.8 refuses one that it does not know yet. */
export const OCI_VERSION = '1.0.2';

export interface OciSpec {
  readonly ociVersion: string;
  readonly process: OciProcess;
  readonly root: { readonly path: string; readonly readonly?: boolean };
  readonly hostname?: string;
  readonly mounts: readonly OciMount[];
  readonly hooks?: Readonly<Partial<Record<OciHookName, readonly OciHook[]>>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly linux: OciLinux;
}

export type OciHookName =
  'prestart' | 'createRuntime' | 'createContainer' | 'startContainer' | 'poststart' | 'poststop';

export interface OciHook {
  readonly path: string;
  readonly args?: readonly string[];
  readonly env?: readonly string[];
  /** Seconds. */
  readonly timeout?: number;
}

export interface OciProcess {
  readonly terminal?: boolean;
  /** Of the terminal, in characters. */
  readonly consoleSize?: { readonly width: number; readonly height: number };
  readonly user: OciUser;
  readonly args: readonly string[];
  readonly env: readonly string[];
  readonly cwd: string;
  readonly capabilities?: OciCapabilities;
  readonly noNewPrivileges?: boolean;
  readonly oomScoreAdj?: number;
  readonly apparmorProfile?: string;
  readonly selinuxLabel?: string;
}

export interface OciUser {
  readonly uid: number;
  readonly gid: number;
  readonly additionalGids?: readonly number[];
  readonly umask?: number;
}

export interface OciCapabilities {
  readonly bounding: readonly string[];
  readonly effective: readonly string[];
  readonly permitted: readonly string[];
  readonly inheritable: readonly string[];
  readonly ambient: readonly string[];
}

export interface OciMount {
  readonly destination: string;
  readonly type?: string;
  readonly source?: string;
  readonly options?: readonly string[];
  readonly uidMappings?: readonly OciIdMapping[];
  readonly gidMappings?: readonly OciIdMapping[];
}

export interface OciIdMapping {
  readonly containerID: number;
  readonly hostID: number;
  readonly size: number;
}

export type OciNamespaceType = 'pid' | 'network' | 'mount' | 'ipc' | 'uts' | 'user' | 'cgroup';

export interface OciNamespace {
  readonly type: OciNamespaceType;
  /** Joined when given, else a new one is made. */
  readonly path?: string;
}

export interface OciLinux {
  readonly namespaces: readonly OciNamespace[];
  readonly cgroupsPath?: string;
  readonly resources?: OciResources;
  readonly devices?: readonly OciDevice[];
  readonly sysctl?: Readonly<Record<string, string>>;
  readonly seccomp?: OciSeccomp;
  readonly maskedPaths?: readonly string[];
  readonly readonlyPaths?: readonly string[];
  /** Propagation of the root mount: needed before a mount below it can be `rshared` or `rslave`. */
  readonly rootfsPropagation?: 'private' | 'rprivate' | 'slave' | 'rslave' | 'shared' | 'rshared';
  readonly mountLabel?: string;
}

export interface OciDevice {
  readonly type: 'c' | 'b' | 'u' | 'p';
  readonly path: string;
  readonly major?: number;
  readonly minor?: number;
  readonly fileMode?: number;
  readonly uid?: number;
  readonly gid?: number;
}

export interface OciDeviceRule {
  readonly allow: boolean;
  readonly type?: 'a' | 'b' | 'c';
  readonly major?: number;
  readonly minor?: number;
  readonly access?: string;
}

export interface OciResources {
  readonly devices?: readonly OciDeviceRule[];
  readonly memory?: { readonly limit?: number; readonly reservation?: number; readonly swap?: number };
  readonly cpu?: {
    readonly shares?: number;
    readonly quota?: number;
    readonly period?: number;
    readonly cpus?: string;
    readonly mems?: string;
  };
  readonly pids?: { readonly limit: number };
  readonly hugepageLimits?: readonly { readonly pageSize: string; readonly limit: number }[];
  readonly unified?: Readonly<Record<string, string>>;
}

export interface OciSeccomp {
  readonly defaultAction: string;
  readonly defaultErrnoRet?: number;
  readonly architectures?: readonly string[];
  readonly flags?: readonly string[];
  readonly syscalls?: readonly OciSyscallRule[];
}

export interface OciSyscallRule {
  readonly names: readonly string[];
  readonly action: string;
  readonly errnoRet?: number;
  readonly args?: readonly OciSyscallArg[];
}

export interface OciSyscallArg {
  readonly index: number;
  readonly value: number;
  readonly valueTwo?: number;
  readonly op: string;
}

/** `state` of an OCI runtime. */
export interface OciState {
  readonly id: string;
  readonly status: 'creating' | 'created' | 'running' | 'paused' | 'stopped';
  /** 0 or absent once stopped. */
  readonly pid?: number;
  readonly bundle?: string;
}
