import { invalidArgument, messageOf } from '../../lib/errors.ts';

/** One plug-in of a CNI network, with all of its own keys. */
export interface PluginConfig {
  readonly type: string;
  readonly capabilities?: Readonly<Record<string, boolean>>;
  readonly [key: string]: unknown;
}

/** A CNI network configuration list (CNI specification, section 1). */
export interface NetworkConfig {
  readonly name: string;
  readonly cniVersion: string;
  readonly plugins: readonly PluginConfig[];
}

/** CNI 0.3.0 is the first version with results as they are read here. */
const DEFAULT_CNI_VERSION = '0.3.1';

/** A `.conflist`, or a `.conf` with a single plug-in. Throws InvalidArgument that names the source. */
export function parseNetworkConfig(text: string, source: string): NetworkConfig {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw invalidArgument(`${source}: not JSON: ${messageOf(error)}`, { cause: error });
  }
  if (!isObject(value)) throw invalidArgument(`${source}: not a JSON object`);
  const { name, cniVersion = DEFAULT_CNI_VERSION } = value;
  if (typeof name !== 'string' || !/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(name)) {
    throw invalidArgument(`${source}: name is missing or not a network name`);
  }
  if (typeof cniVersion !== 'string') throw invalidArgument(`${source}: cniVersion is not a string`);
  const plugins = 'plugins' in value ? value['plugins'] : [value];
  if (!Array.isArray(plugins) || plugins.length === 0)
    throw invalidArgument(`${source}: plugins is not a list with an entry`);
  return { name, cniVersion, plugins: plugins.map((plugin) => parsePlugin(plugin, source)) };
}

function parsePlugin(value: unknown, source: string): PluginConfig {
  if (!isObject(value) || typeof value['type'] !== 'string')
    throw invalidArgument(`${source}: a plug-in without a type`);
  checkPluginType(value['type'], source);
  return value as PluginConfig;
}

/** A plug-in's type is the name of a program in the plug-in folders and must not lead out of them. */
function checkPluginType(type: string, source: string): void {
  if (!/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(type)) throw invalidArgument(`${source}: ${type} is not a plug-in name`);
}

/** The programs that a network needs: its plug-ins and those that they call for addresses. */
export function pluginTypes({ plugins }: NetworkConfig): string[] {
  const types = plugins.flatMap((plugin) => {
    const ipam = plugin['ipam'];
    return isObject(ipam) && typeof ipam['type'] === 'string' && ipam['type'] !== ''
      ? [plugin.type, ipam['type']]
      : [plugin.type];
  });
  return [...new Set(types)];
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
