import type { Op } from '../../lib/abort.ts';
import { joinErrors, messageOf } from '../../lib/errors.ts';
import type { Iptables } from './iptables.ts';
import { canBeSeen, leftBehind } from './left-behind.ts';
import type { NetworkConfig } from './network-config.ts';
import { deleteNetwork, type CniResult, type DelFailure, type FailedAdd, type PluginChain } from './plugin-chain.ts';
import { refusesConfig } from './plugin-error.ts';

export interface TakeDown {
  /** As the pod was connected. */
  readonly chain: PluginChain;
  /** The pod's namespace, if it is there. */
  readonly netns: string | undefined;
  /** Of ADD, if it succeeded. */
  readonly result: CniResult | undefined;
  /** Where ADD ended, if a plug-in failed. */
  readonly failedAdd: FailedAdd | undefined;
  /** What the network of the same name is by now, where that is something else. */
  readonly present: NetworkConfig | undefined;
  readonly iptables: Pick<Iptables, 'list'>;
}

/**
 * DEL, as often as it makes sense. Some failures of it are for ever, as those of a configuration that no plug-in accepts: then nothing is
 * owed any more once it is certain that nothing is held. Resolves with why DEL was done without, undefined when it was done;
 * throws the failures of DEL with the configuration that the pod was connected by.
 */
export async function takeDown(op: Op, down: TakeDown): Promise<string | undefined> {
  const { chain, netns, result, failedAdd, present, iptables } = down;
  const { network } = chain;
  const failures = (await deleteNetwork(op, chain, netns, result)).filter(({ position, code }) =>
    mayHold(failedAdd, position, code),
  );
  if (failures.length === 0) return undefined;
  // A person has mended the configuration since, perhaps because of just this.
  if (present !== undefined) {
    const usable = present.cniVersion === network.cniVersion ? result : undefined;
    if ((await deleteNetwork(op, { ...chain, network: present }, netns, usable)).length === 0) return undefined;
  }
  if (failures.every(({ position }) => isSeen(network, position))) {
    const left = await leftBehind(op, iptables, network, { containerId: chain.attachment.containerId, netns, result });
    if (left.length === 0) return `${inWords(failures)}; no namespace, address, interface or rule of it is left`;
  }
  throw joinErrors(failures.map(({ error }) => error));
}

/** Plug-ins behind the one whose ADD failed were never asked; one that took neither ADD's configuration nor DEL's has begun nothing. */
function mayHold(failedAdd: FailedAdd | undefined, position: number, code: number | undefined): boolean {
  if (failedAdd === undefined || position < failedAdd.position) return true;
  if (position > failedAdd.position) return false;
  return !(refusesConfig(failedAdd.code) && refusesConfig(code));
}

function isSeen({ plugins }: NetworkConfig, position: number): boolean {
  const plugin = plugins[position];
  return plugin !== undefined && canBeSeen(plugin);
}

function inWords(failures: readonly DelFailure[]): string {
  return messageOf(joinErrors(failures.map(({ error }) => error)));
}
