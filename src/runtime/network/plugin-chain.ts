import type { Op } from '../../lib/abort.ts';
import { GantryError, internal } from '../../lib/errors.ts';
import type { FaultPoints } from '../../lib/fault-points.ts';
import { isObject, type NetworkConfig, type PluginConfig } from './network-config.ts';
import { failureIn, jsonObject, pluginError, saysGone } from './plugin-error.ts';
import { runPlugin, type PluginCall } from './plugin-runner.ts';

/** Who is connected to what. */
export interface Attachment {
  readonly containerId: string;
  readonly ifName: string;
  readonly args: Readonly<Record<string, string>>;
  /** Values for the capabilities that plug-ins declare: `portMappings` … */
  readonly capabilities: Readonly<Record<string, unknown>>;
}

/** A network's plug-ins, and whom they are asked to connect or to disconnect. */
export interface PluginChain {
  readonly binDirs: readonly string[];
  readonly network: NetworkConfig;
  readonly attachment: Attachment;
  readonly faults: FaultPoints;
}

const LONGEST_QUOTE = 200;

export type CniResult = Readonly<Record<string, unknown>>;

/** What one plug-in is given: the network's name and version, what came before, and the capabilities that it declares. */
export function pluginInput(
  network: NetworkConfig,
  plugin: PluginConfig,
  capabilities: Attachment['capabilities'],
  prevResult: CniResult | undefined,
): Record<string, unknown> {
  const { capabilities: declared = {}, ...own } = plugin;
  const runtimeConfig = Object.fromEntries(Object.entries(capabilities).filter(([name]) => declared[name] === true));
  return {
    ...own,
    name: network.name,
    cniVersion: network.cniVersion,
    ...(Object.keys(runtimeConfig).length === 0 ? {} : { runtimeConfig }),
    ...(prevResult === undefined ? {} : { prevResult }),
  };
}

/** CNI ADD over all plug-ins in order. Leaves what the first ones made when a later one fails: DEL takes it back. */
export async function addNetwork(op: Op, chain: PluginChain, netns: string): Promise<CniResult> {
  const { binDirs, network, faults } = chain;
  let result: CniResult | undefined;
  for (const [position, plugin] of network.plugins.entries()) {
    const call = callOf(chain, plugin, { command: 'ADD', netns, result });
    await faults.reach('add-network/plug-in-begun');
    const answer = await runPlugin(op, binDirs, call, () => faults.pass('add-network/plug-in-running'));
    await faults.reach('add-network/plug-in-done');
    const failure = failureIn(answer);
    if (failure !== undefined) throw pluginError(plugin.type, 'ADD', failure, { position });
    result = parseResult(plugin.type, answer.stdout);
  }
  if (result === undefined) throw internal(`network ${network.name} has no plug-in`);
  return result;
}

/** The plug-in whose ADD failed: those behind it were never asked. */
export interface FailedAdd {
  /** In the plan's network, from 0. */
  readonly position: number;
  /** CNI's error code. */
  readonly code: number;
}

/** Where {@link addNetwork} failed, if it was a plug-in that did. */
export function failedAddOf(error: unknown): FailedAdd | undefined {
  if (!(error instanceof GantryError)) return undefined;
  const { command, position, pluginCode } = error.details;
  if (command !== 'ADD' || typeof position !== 'number' || typeof pluginCode !== 'number') return undefined;
  return { position, code: pluginCode };
}

export interface DelFailure {
  /** Of the plug-in in its network, from 0. */
  readonly position: number;
  /** As the plug-in said it; absent when it said nothing of the kind. */
  readonly code: number | undefined;
  readonly error: unknown;
}

/**
 * CNI DEL over all plug-ins, last first. One that fails does not keep the others from being asked; those that failed are
 * returned. A plug-in that says that all is gone has succeeded (FAILURES.md row 37). What it prints beside an exit code of 0 changes
 * nothing, unless it is an error: whether the addresses are free is for the caller to see.
 */
export async function deleteNetwork(
  op: Op,
  chain: PluginChain,
  netns: string | undefined,
  result: CniResult | undefined,
): Promise<DelFailure[]> {
  const { binDirs, network, faults } = chain;
  const failures: DelFailure[] = [];
  for (const [position, plugin] of [...network.plugins.entries()].reverse()) {
    const call = callOf(chain, plugin, { command: 'DEL', netns: netns ?? '', result });
    try {
      await faults.reach('delete-network/plug-in-begun');
      const answer = await runPlugin(op, binDirs, call, () => faults.pass('delete-network/plug-in-running'));
      await faults.reach('delete-network/plug-in-done');
      const failure = failureIn(answer);
      if (failure === undefined) noteBabble(op, plugin.type, answer.stdout);
      else if (!saysGone(failure, netns === undefined)) {
        failures.push({ position, code: failure.code, error: pluginError(plugin.type, 'DEL', failure) });
      }
    } catch (error) {
      op.signal.throwIfAborted();
      failures.push({ position, code: undefined, error });
    }
  }
  return failures;
}

function callOf(
  { network, attachment }: PluginChain,
  plugin: PluginConfig,
  { command, netns, result }: Pick<PluginCall, 'command' | 'netns'> & { readonly result: CniResult | undefined },
): PluginCall {
  const { containerId, ifName, args, capabilities } = attachment;
  const config = pluginInput(network, plugin, capabilities, result);
  return { type: plugin.type, command, config, containerId, netns, ifName, args };
}

function noteBabble(op: Op, plugin: string, stdout: string): void {
  if (stdout.trim() === '' || jsonObject(stdout) !== undefined) return;
  op.log.warn(
    { plugin, stdout: stdout.trim().slice(0, LONGEST_QUOTE) },
    'a CNI plug-in ended well (DEL) and printed what is no answer',
  );
}

function parseResult(type: string, stdout: string): CniResult {
  const value = jsonObject(stdout);
  if (value !== undefined) return value;
  throw new GantryError('Internal', `CNI plug-in ${type} said that it succeeded but gave no result`, {
    details: { plugin: type, stdout: stdout.slice(0, LONGEST_QUOTE) },
  });
}

/** The addresses of a result, without prefix lengths, in the plug-in's order. */
export function addressesOf(result: CniResult): string[] {
  return ipsOf(result).flatMap((ip) => addressOf(ip) ?? []);
}

/** The result as if it had never had these addresses. */
export function withoutAddresses(result: CniResult, addresses: ReadonlySet<string>): CniResult {
  if (addresses.size === 0) return result;
  return { ...result, ips: ipsOf(result).filter((ip) => !addresses.has(addressOf(ip) ?? '')) };
}

function ipsOf(result: CniResult): readonly unknown[] {
  const ips = result['ips'];
  return Array.isArray(ips) ? ips : [];
}

function addressOf(ip: unknown): string | undefined {
  const address = isObject(ip) ? ip['address'] : undefined;
  return typeof address === 'string' ? (address.split('/')[0] ?? address) : undefined;
}
