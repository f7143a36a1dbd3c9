import { isIP } from 'node:net';
import { invalidArgument } from '../../lib/errors.ts';

/** An address to listen on. */
export interface ListenAddress {
  readonly address: string;
  /** One of the two that `localhost` stands for: one of them is enough. */
  readonly ofLocalhost: boolean;
}

/**
 * The value of `--address`, separated by commas: IP addresses, and `localhost` for that of either family.
 *
 * @throws InvalidArgument
 */
export function parseListenAddresses(text: string): readonly ListenAddress[] {
  const found = new Map<string, ListenAddress>();
  for (const word of text.split(',').map((part) => part.trim())) {
    if (word === 'localhost') {
      for (const address of ['127.0.0.1', '::1'])
        if (!found.has(address)) found.set(address, { address, ofLocalhost: true });
    } else if (isIP(word) !== 0) found.set(word, { address: word, ofLocalhost: false });
    else throw invalidArgument(`${word === '' ? '--address: an empty word' : word} is not a valid IP`);
  }
  return [...found.values()];
}

/** `127.0.0.1:80`, `[::1]:80` */
export function shownAddress(address: string, port: number): string {
  return `${address.includes(':') ? `[${address}]` : address}:${port}`;
}
