import { isIP } from 'node:net';
import type { UpdateRuntimeConfigRequest, UpdateRuntimeConfigResponse } from '../cri/gen/api.ts';
import type { Op } from '../lib/abort.ts';
import { invalidArgument } from '../lib/errors.ts';
import type { RuntimeContext } from './context.ts';

/**
 * Takes note of the addresses that the node's pods are to have. They are the network configuration's to give: a configuration that is there
 * is used as it is, and one of our own is never written into the folder in which a network add-on puts its. So nothing changes on the host;
 * while there is no network, Status goes on saying so. Throws InvalidArgument for what is no range of addresses.
 */
export async function updateRuntimeConfig(
  _op: Op,
  rt: RuntimeContext,
  { runtimeConfig }: UpdateRuntimeConfigRequest,
): Promise<UpdateRuntimeConfigResponse> {
  const text = runtimeConfig?.networkConfig?.podCidr ?? '';
  if (text === '') return {};
  const podCidrs = text.split(',');
  for (const range of podCidrs) {
    if (!isAddressRange(range))
      throw invalidArgument(`pod_cidr: ${JSON.stringify(range)} is no range such as 10.1.2.0/24`);
  }
  const { ready, reason } = await rt.networks.status();
  const words = ready ? 'the network that is configured goes on' : `there is no network yet (${reason})`;
  rt.log.info({ podCidrs, networkReady: ready }, `pod addresses noted: ${words}`);
  return {};
}

function isAddressRange(text: string): boolean {
  const [address = '', length = '', ...more] = text.trim().split('/');
  const family = isIP(address);
  return more.length === 0 && family !== 0 && /^\d{1,3}$/.test(length) && Number(length) <= (family === 4 ? 32 : 128);
}
