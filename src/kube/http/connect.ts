import type { Op } from '../../lib/abort.ts';
import type { ApiConnection, ServerVersion } from '../gantry-extensions.ts';
import { HttpConnection } from './http-connection.ts';
import { httpGantryClient } from './http-gantry-client.ts';
import { httpKubeClient } from './http-kube-client.ts';
import { httpPodStreams } from './http-pod-streams.ts';

export interface ConnectOptions {
  /** The version of this program, told when the daemon seems to be of another one. */
  readonly ownVersion?: string;
}

/**
 * The API at an address. Nothing is sent before the first call, so this does not fail when nobody answers there.
 *
 * @param address `unix:///run/gantry/api.sock` or `http://127.0.0.1:8080`
 * @throws InvalidArgument for another kind of address
 */
export async function connectApi(address: string, options: ConnectOptions = {}): Promise<ApiConnection> {
  const connection = await Promise.resolve(new HttpConnection(address));
  const serverVersion = async (op: Op): Promise<ServerVersion> =>
    (await connection.ask<ServerVersion>(op, { method: 'GET', path: ['version'] })).body;
  return {
    kube: httpKubeClient(connection),
    gantry: httpGantryClient(connection, { address, own: options.ownVersion, server: serverVersion }),
    streams: httpPodStreams(connection),
    serverVersion,
    close: () => {
      connection.close();
      return Promise.resolve();
    },
  };
}
