import { parse, TomlError } from 'smol-toml';
import { failedPrecondition, messageOf } from '../../../lib/errors.ts';
import { lineOfKey } from './toml-place.ts';

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
 * here. Throws FailedPrecondition with `source` and line: who asks for an image cannot help it. Keys that mean nothing to us are given to `onUnknown`.
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
    const [what] = messageOf(error).split('\n');
    throw failedPrecondition(`${source}${error instanceof TomlError ? `:${String(error.line)}` : ''}: ${what ?? ''}`);
  }
  const read = new EntryReader({ source, content, onUnknown });
  const upstreamDefaults = read.settings(root, '', ['server', 'host']);
  const server = read.optional(root, 'server', isText, 'text');
  if (server !== undefined) read.address(server, '', 'server');
  const hosts = read.optional(root, 'host', isTable, 'a table') ?? {};
  const mirrors = Object.entries(hosts).map(([address, value]) => {
    const at = `host.${JSON.stringify(address)}`;
    if (!isTable(value)) throw read.wrong('host.', JSON.stringify(address), 'a table');
    read.address(address, `${at}.`, '');
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
  readonly #content: string;
  readonly #onUnknown: (key: string) => void;

  constructor(file: { source: string; content: string; onUnknown: (key: string) => void }) {
    this.#source = file.source;
    this.#content = file.content;
    this.#onUnknown = file.onUnknown;
  }

  /** @param at the table with a dot behind it; '' is the top */
  wrong(at: string, key: string, want: string): Error {
    const line = lineOfKey(this.#content, at.replace(/\.$/, ''), key);
    const place = line === undefined ? this.#source : `${this.#source}:${String(line)}`;
    return failedPrecondition(`${place}: ${`${at}${key}`.replace(/\.$/, '')} is not ${want}`);
  }

  address(text: string, at: string, key: string): void {
    if (URL.parse(/^https?:\/\//i.test(text) ? text : `http://${text}`) === null) {
      throw this.wrong(at, key, 'an address of a registry');
    }
  }

  optional<T>(from: Toml, key: string, check: (value: unknown) => value is T, want: string, at = ''): T | undefined {
    const value = from[key];
    if (value === undefined) return undefined;
    if (!check(value)) throw this.wrong(at, key, want);
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
      ca: textOrTexts(from['ca'], () => this.wrong(at, 'ca', 'a file name or a list of them')),
      client: clientPairs(from['client'], () =>
        this.wrong(at, 'client', 'a file name, a list of them, or a list of pairs'),
      ),
      headers: Object.fromEntries(
        Object.entries(headers).map(([name, value]) => [
          name.toLowerCase(),
          textOrTexts(value, () => this.wrong(`${at}header.`, name, 'text')).join(', '),
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
