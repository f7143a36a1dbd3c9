import { parse } from 'smol-toml';
import { invalidArgument, messageOf } from '../../../lib/errors.ts';

/** One host to ask, as `hosts.toml` describes it. */
export interface HostEntry {
  /** As written: `https://mirror.example/path`, `mirror.example:5000`. */
  readonly server: string;
  readonly canPull: boolean;
  readonly canResolve: boolean;
  readonly skipVerify: boolean;
  /** Files of certificates that are trusted besides the system's own. */
  readonly ca: readonly string[];
  /** Files for the client's side of TLS; `key` is undefined when one file holds both. */
  readonly client: readonly { readonly cert: string; readonly key?: string }[];
  /** The address holds the whole path: no `/v2` is put behind it. */
  readonly overridePath: boolean;
  readonly headers: Readonly<Record<string, string>>;
}

export interface HostsFile {
  /** What takes the place of the registry itself; undefined leaves that to the name. Its settings stand at the top. */
  readonly server?: HostEntry;
  /** The settings at the top of a file without `server`: they are for the registry itself. */
  readonly upstreamDefaults: Omit<HostEntry, 'server'>;
  /** Mirrors, in the order of the file. */
  readonly mirrors: readonly HostEntry[];
}

type Toml = Readonly<Record<string, unknown>>;

/**
 * Reads the mirror configuration of a registry. Keys as containerd documents them, so that files written for it work
 * here. Throws InvalidArgument with `source`. Keys that mean nothing to us are given to `onUnknown`.
 */
export function parseHostsToml(
  content: string,
  source: string,
  onUnknown: (key: string) => void = () => undefined,
): HostsFile {
  let root: Toml;
  try {
    root = parse(content);
  } catch (error) {
    throw invalidArgument(`${source}: ${messageOf(error)}`);
  }
  const read = new EntryReader(source, onUnknown);
  const upstreamDefaults = read.settings(root, '', ['server', 'host']);
  const server = read.optional(root, 'server', isText, 'text');
  const hosts = read.optional(root, 'host', isTable, 'a table') ?? {};
  const mirrors = Object.entries(hosts).map(([address, value]) => {
    const at = `host.${JSON.stringify(address)}`;
    if (!isTable(value)) throw invalidArgument(`${source}: ${at} is not a table`);
    return { server: address, ...read.settings(value, `${at}.`, []) };
  });
  return {
    ...(server === undefined ? {} : { server: { server, ...upstreamDefaults } }),
    upstreamDefaults,
    mirrors,
  };
}

const SETTINGS = ['capabilities', 'ca', 'client', 'skip_verify', 'override_path', 'header', 'dial_timeout'];

class EntryReader {
  readonly #source: string;
  readonly #onUnknown: (key: string) => void;

  constructor(source: string, onUnknown: (key: string) => void) {
    this.#source = source;
    this.#onUnknown = onUnknown;
  }

  optional<T>(from: Toml, key: string, check: (value: unknown) => value is T, want: string, at = ''): T | undefined {
    const value = from[key];
    if (value === undefined) return undefined;
    if (!check(value)) throw invalidArgument(`${this.#source}: ${at}${key} is not ${want}`);
    return value;
  }

  settings(from: Toml, at: string, alsoKnown: readonly string[]): Omit<HostEntry, 'server'> {
    for (const key of Object.keys(from)) {
      if (!SETTINGS.includes(key) && !alsoKnown.includes(key)) this.#onUnknown(`${at}${key}`);
    }
    const capabilities = this.optional(from, 'capabilities', isTexts, 'a list of texts', at) ?? ['pull', 'resolve'];
    const headers = this.optional(from, 'header', isTable, 'a table', at) ?? {};
    return {
      canPull: capabilities.includes('pull'),
      canResolve: capabilities.includes('resolve'),
      skipVerify: this.optional(from, 'skip_verify', isBoolean, 'true or false', at) ?? false,
      overridePath: this.optional(from, 'override_path', isBoolean, 'true or false', at) ?? false,
      ca: textOrTexts(from['ca'], () =>
        invalidArgument(`${this.#source}: ${at}ca is not a file name or a list of them`),
      ),
      client: clientPairs(from['client'], () =>
        invalidArgument(`${this.#source}: ${at}client is not a file name, a list of them, or a list of pairs`),
      ),
      headers: Object.fromEntries(
        Object.entries(headers).map(([name, value]) => [
          name.toLowerCase(),
          textOrTexts(value, () => invalidArgument(`${this.#source}: ${at}header.${name} is not text`)).join(', '),
        ]),
      ),
    };
  }
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every(isText);
}

function isBoolean(value: unknown): value is boolean {
  return typeof value === 'boolean';
}

function isTable(value: unknown): value is Toml {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function textOrTexts(value: unknown, error: () => Error): readonly string[] {
  if (value === undefined) return [];
  if (isText(value)) return [value];
  if (isTexts(value)) return value;
  throw error();
}

function clientPairs(value: unknown, error: () => Error): HostEntry['client'] {
  if (value === undefined) return [];
  if (isText(value)) return [{ cert: value }];
  if (!Array.isArray(value)) throw error();
  return value.map((item: unknown) => {
    if (isText(item)) return { cert: item };
    if (isTexts(item) && item[0] !== undefined) {
      const key = item[1] ?? '';
      return key === '' ? { cert: item[0] } : { cert: item[0], key };
    }
    throw error();
  });
}
