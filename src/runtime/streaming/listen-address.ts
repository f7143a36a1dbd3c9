import net from 'node:net';
import type { AddressInfo } from 'node:net';
import { invalidArgument, messageOf, unavailable } from '../../lib/errors.ts';

interface HostPort {
  readonly host: string;
  readonly port: number;
}

/** @throws InvalidArgument for what is not `host:port` (`[::1]:0` for an address with colons) */
export function parseHostPort(address: string): HostPort {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(address);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (host === undefined || port > 0xffff) {
    throw invalidArgument(
      `${JSON.stringify(address)} is no address to stream on: it must be HOST:PORT, as 127.0.0.1:0`,
    );
  }
  return { host, port };
}

/** `host:port` as it is written in a URL. */
export function printHostPort({ host, port }: HostPort): string {
  return `${net.isIPv6(host) ? `[${host}]` : host}:${port}`;
}

/**
 * Resolves to what clients are to connect to: the port that was really taken, and this machine where every address is listened on.
 * @throws Unavailable when nobody can listen there
 */
export async function listenOn(server: net.Server, address: HostPort): Promise<HostPort> {
  await new Promise<void>((resolve, reject) => {
    const onError = (error: Error): void => {
      reject(
        unavailable(`cannot listen for streaming on ${printHostPort(address)}: ${messageOf(error)}`, { cause: error }),
      );
    };
    server.once('error', onError);
    server.listen(address.port, address.host, () => {
      server.removeListener('error', onError);
      resolve();
    });
  });
  const bound = server.address();
  if (!isAddressInfo(bound)) return address;
  const everywhere: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' };
  return { host: everywhere[bound.address] ?? bound.address, port: bound.port };
}

function isAddressInfo(address: string | AddressInfo | null): address is AddressInfo {
  return typeof address === 'object' && address !== null;
}
