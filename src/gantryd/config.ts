import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { isAbsolute, join } from 'node:path';
import { parse } from 'yaml';
import { dnsSubdomain } from '../kube/validate/names.ts';
import { errnoOf, invalidArgument, messageOf } from '../lib/errors.ts';
import {
  checkCgroupParent,
  DRIVER_CHOICES,
  isDriverChoice,
  isSliceName,
  type CgroupDriverChoice,
} from './cgroup-choice.ts';
import { parseHandlers } from '../runtime/oci/handler-settings.ts';
import { LOG_LEVELS, type LogLevel } from '../lib/log.ts';
import { parseReference } from '../runtime/image/reference.ts';

/** Everything that can be set, by a flag `--kebab-case` or by the same key in the config file; a flag wins. */
export interface GantryConfig {
  readonly root: string;
  readonly state: string;
  readonly logRoot: string;
  readonly podsDir: string;
  readonly netnsDir: string;
  readonly criListen: string;
  readonly apiListen: string;
  readonly cniConfDir: string;
  readonly cniBinDir: readonly string[];
  readonly registryConfigDir: string;
  readonly cdiSpecDir: readonly string[];
  readonly seccompProfileRoot: string;
  readonly pinnedImages: readonly string[];
  readonly ociRuntime: string;
  readonly runtimes: readonly string[];
  readonly cgroupParent: string;
  readonly cgroupDriver: CgroupDriverChoice;
  readonly instance: string;
  readonly nodeName: string;
  readonly streamingAddress: string;
  readonly logLevel: LogLevel;
  readonly runtimeOnly: boolean;
}

export type ConfigKey = keyof GantryConfig;

interface Setting {
  readonly key: ConfigKey;
  /** The placeholder in the help; none for a switch. */
  readonly placeholder?: string;
  readonly help: string;
}

/** In the order of the help text. */
export const SETTINGS: readonly Setting[] = [
  {
    key: 'root',
    placeholder: 'DIR',
    help: 'data that survives a reboot: images, layers, records, volumes (default /var/lib/gantry)',
  },
  {
    key: 'state',
    placeholder: 'DIR',
    help: 'state that does not: mounts, sockets (default /run/gantry; ROOT/run with a --root of your own)',
  },
  { key: 'logRoot', placeholder: 'DIR', help: "pods' logs (default /var/log/pods)" },
  { key: 'podsDir', placeholder: 'DIR', help: "pods' volumes (default ROOT/pods)" },
  { key: 'netnsDir', placeholder: 'DIR', help: 'where network namespaces are pinned (default /var/run/netns)' },
  { key: 'criListen', placeholder: 'unix://PATH', help: 'the CRI socket (default unix://STATE/gantry.sock)' },
  { key: 'apiListen', placeholder: 'unix://PATH', help: 'the Kubernetes API socket (default unix://STATE/api.sock)' },
  { key: 'cniConfDir', placeholder: 'DIR', help: 'CNI configurations (default /etc/cni/net.d)' },
  { key: 'cniBinDir', placeholder: 'DIR[,DIR]', help: 'CNI plug-ins (default /opt/cni/bin,/usr/lib/cni)' },
  {
    key: 'registryConfigDir',
    placeholder: 'DIR',
    help: 'certs.d folder with a hosts.toml per registry (default /etc/gantry/certs.d)',
  },
  {
    key: 'pinnedImages',
    placeholder: 'NAME[,NAME]',
    help: "images that no kubelet's garbage collection may remove, by tag or digest (default none)",
  },
  {
    key: 'cdiSpecDir',
    placeholder: 'DIR[,DIR]',
    help: 'Container Device Interface: what vendors say of their devices, the last folder wins (default /etc/cdi,/var/run/cdi)',
  },
  {
    key: 'seccompProfileRoot',
    placeholder: 'DIR',
    help: 'where seccomp profiles of type Localhost are looked up for pods (default ROOT/seccomp)',
  },
  {
    key: 'ociRuntime',
    placeholder: 'auto|crun|runc|PATH',
    help: 'low-level runtime; auto tries crun, then runc, with a real container (default auto)',
  },
  {
    key: 'runtimes',
    placeholder: 'NAME[=PATH][,…]',
    help: 'handlers that a pod may ask for beside the default one: crun,runc,kata=/usr/bin/kata (default none)',
  },
  {
    key: 'cgroupParent',
    placeholder: 'PATH',
    help: 'parent of all cgroups of this Gantry (default /gantry; /gantry-INSTANCE with a --root of your own); with the systemd driver a slice: NAME.slice, or what the path becomes',
  },
  {
    key: 'cgroupDriver',
    placeholder: 'auto|cgroupfs|systemd',
    help: 'who makes the cgroups; auto stays with what this root folder has had, else is cgroupfs (default auto)',
  },
  {
    key: 'instance',
    placeholder: 'ID',
    help: "id that everything made here carries (default: derived from the root folder's path)",
  },
  { key: 'nodeName', placeholder: 'NAME', help: "the Node object's name (default: the host name)" },
  {
    key: 'streamingAddress',
    placeholder: 'HOST:PORT',
    help: 'where the streams of exec, attach and port-forward are served, to whoever has a URL; port 0: any, opened with the first URL (default 127.0.0.1:0)',
  },
  { key: 'logLevel', placeholder: 'LEVEL', help: `one of ${LOG_LEVELS.join(', ')} (default info)` },
  { key: 'runtimeOnly', help: 'serve CRI alone: no agent, no API' },
];

export const DEFAULT_CONFIG_FILE = '/etc/gantry/config.yaml';
export const DEFAULT_ROOT = '/var/lib/gantry';
const DEFAULT_STATE = '/run/gantry';

export function flagOf(key: ConfigKey): string {
  return `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

function kebab(key: ConfigKey): string {
  return flagOf(key).slice(2);
}

export type PartialConfig = Partial<Record<ConfigKey, string | boolean>>;

/**
 * Reads a config file: YAML with the flags' names as keys (`cgroup-parent: /gantry`).
 * A missing file is an error only when it was asked for by name.
 */
export async function readConfigFile(path: string, required: boolean): Promise<PartialConfig> {
  if (path === '') throw invalidArgument('--config: the value is empty: give a file, or leave it out');
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' && !required) return {};
    throw invalidArgument(`config file ${path}: ${messageOf(error)}`, { cause: error });
  }
  return parseConfig(text, path);
}

export function parseConfig(text: string, path: string): PartialConfig {
  let document: unknown;
  try {
    document = parse(text);
  } catch (error) {
    throw invalidArgument(`config file ${path}: ${messageOf(error)}`, { cause: error });
  }
  if (document === null || document === undefined) return {};
  if (typeof document !== 'object' || Array.isArray(document)) {
    throw invalidArgument(`config file ${path}: it should be a mapping of settings to values`);
  }
  const known = new Map(SETTINGS.map((setting) => [kebab(setting.key), setting]));
  const result: PartialConfig = {};
  for (const [name, value] of Object.entries(document)) {
    const setting = known.get(name);
    if (setting === undefined) {
      throw invalidArgument(`config file ${path}: unknown setting "${name}" (known: ${[...known.keys()].join(', ')})`);
    }
    const wanted = setting.placeholder === undefined ? 'boolean' : 'string';
    const given: unknown = Array.isArray(value) ? value.join(',') : value;
    if (typeof given !== wanted) throw invalidArgument(`config file ${path}: ${name} should be a ${wanted}`);
    result[setting.key] = given as string | boolean;
  }
  return result;
}

/** Fills in the defaults and checks every value. Throws InvalidArgument naming the flag. */
export function resolveConfig(given: PartialConfig, hostName: string): GantryConfig {
  const text = (key: ConfigKey, fallback: string): string => {
    const value = given[key];
    // An unset variable in a unit file must not make this a daemon on somebody's real data.
    if (value === '') throw invalidArgument(`${flagOf(key)}: the value is empty: give one, or leave the setting out`);
    return typeof value === 'string' ? value : fallback;
  };
  const path = (key: ConfigKey, fallback: string): string => {
    const value = text(key, fallback);
    if (!isAbsolute(value)) throw invalidArgument(`${flagOf(key)}: ${value} is not an absolute path`);
    // `..` stays: where it leads to is for the file system to say.
    return `/${value
      .split('/')
      .filter((part) => part !== '' && part !== '.')
      .join('/')}`;
  };
  const socket = (key: ConfigKey, fallback: string): string => {
    const value = text(key, fallback);
    if (!value.startsWith('unix:///'))
      throw invalidArgument(`${flagOf(key)}: ${value} is not of the form unix:///PATH`);
    // sun_path holds 108 bytes with its final NUL.
    if (value.length - 'unix://'.length > 107)
      throw invalidArgument(`${flagOf(key)}: the path of ${value} is longer than 107 bytes`);
    return value;
  };
  const root = path('root', DEFAULT_ROOT);
  const state = path('state', root === DEFAULT_ROOT ? DEFAULT_STATE : join(root, 'run'));
  const instance = text('instance', defaultInstance(root));
  if (!/^[a-z0-9]{1,8}$/.test(instance)) {
    throw invalidArgument(
      `--instance: ${instance} should be 1 to 8 lower-case letters and digits (it goes into interface names)`,
    );
  }
  const logLevel = text('logLevel', 'info');
  if (!(LOG_LEVELS as readonly string[]).includes(logLevel)) {
    throw invalidArgument(`--log-level: ${logLevel} is none of ${LOG_LEVELS.join(', ')}`);
  }
  const cgroupDriver = text('cgroupDriver', 'auto');
  if (!isDriverChoice(cgroupDriver)) {
    throw invalidArgument(`--cgroup-driver: ${cgroupDriver} is none of ${DRIVER_CHOICES.join(', ')}`);
  }
  const cgroupParent = isSliceName(given.cgroupParent)
    ? given.cgroupParent
    : path('cgroupParent', root === DEFAULT_ROOT ? '/gantry' : `/gantry-${instance}`);
  checkCgroupParent(cgroupParent, cgroupDriver);
  const folders = (key: ConfigKey, fallback: string): string[] => {
    const directories = text(key, fallback).split(',');
    for (const directory of directories) {
      if (!isAbsolute(directory)) throw invalidArgument(`${flagOf(key)}: ${directory} is not an absolute path`);
    }
    return directories;
  };
  const pinnedImages = text('pinnedImages', '')
    .split(',')
    .filter((name) => name !== '');
  for (const name of pinnedImages) requireReference('--pinned-images', name);
  const runtimes = text('runtimes', '')
    .split(',')
    .filter((handler) => handler !== '');
  parseHandlers(runtimes);
  const nodeName = text('nodeName', asNodeName(hostName));
  const wrongName = dnsSubdomain(nodeName);
  if (wrongName !== undefined) throw invalidArgument(`--node-name: "${nodeName}": ${wrongName}`);
  const streamingAddress = text('streamingAddress', '127.0.0.1:0');
  if (!isHostAndPort(streamingAddress)) {
    throw invalidArgument(
      `--streaming-address: ${streamingAddress} is not of the form HOST:PORT (127.0.0.1:0, [::1]:10010), with a port up to 65535`,
    );
  }
  return {
    root,
    state,
    logRoot: path('logRoot', '/var/log/pods'),
    podsDir: path('podsDir', join(root, 'pods')),
    netnsDir: path('netnsDir', '/var/run/netns'),
    criListen: socket('criListen', `unix://${state}/gantry.sock`),
    apiListen: socket('apiListen', `unix://${state}/api.sock`),
    cniConfDir: path('cniConfDir', '/etc/cni/net.d'),
    cniBinDir: folders('cniBinDir', '/opt/cni/bin,/usr/lib/cni'),
    registryConfigDir: path('registryConfigDir', '/etc/gantry/certs.d'),
    cdiSpecDir: folders('cdiSpecDir', '/etc/cdi,/var/run/cdi'),
    seccompProfileRoot: path('seccompProfileRoot', join(root, 'seccomp')),
    pinnedImages,
    ociRuntime: text('ociRuntime', 'auto'),
    runtimes,
    cgroupParent,
    cgroupDriver,
    instance,
    nodeName,
    streamingAddress,
    logLevel: logLevel as LogLevel,
    runtimeOnly: given.runtimeOnly === true,
  };
}

function requireReference(flag: string, name: string): void {
  try {
    parseReference(name);
  } catch (error) {
    throw invalidArgument(`${flag}: ${messageOf(error)}`, { cause: error });
  }
}

/** A host may be called what no Node may be: `My_Box`. */
function asNodeName(hostName: string): string {
  const name = hostName
    .toLowerCase()
    .replace(/[^a-z0-9.-]+/g, '-')
    .replace(/(^|\.)[.-]+|[.-]+(?=\.|$)/g, '$1');
  return name === '' ? 'localhost' : name;
}

/** An address or a name of this machine, and a port; 0 is any free one. */
function isHostAndPort(address: string): boolean {
  const [, six, host, port] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(address) ?? [];
  if (Number(port ?? Number.NaN) > 65535 || port === undefined) return false;
  if (six !== undefined) return isIP(six) === 6;
  return host !== undefined && (/^[\d.]+$/.test(host) ? isIP(host) === 4 : dnsSubdomain(host) === undefined);
}

/** One instance per root folder: the same folder gives the same id after every start. */
function defaultInstance(root: string): string {
  return createHash('sha256').update(root).digest('hex').slice(0, 6);
}

/** The effective configuration as a config file. */
export function dumpConfig(config: GantryConfig): string {
  return SETTINGS.map(({ key }) => {
    const value = config[key];
    const text = Array.isArray(value) ? value.join(',') : String(value);
    // An empty value is refused when it is read.
    return text === '' ? '' : `${kebab(key)}: ${text}\n`;
  }).join('');
}
