import { invalidArgument } from '../lib/errors.ts';

export const AF_UNIX = 1;
export const SOCK = { STREAM: 1, SEQPACKET: 5, NONBLOCK: 0o4000, CLOEXEC: 0o2000000 } as const;

const PATH_OFFSET = 2;
const PATH_BYTES = 107;

/** struct sockaddr_un. Throws InvalidArgument for a path that does not fit. */
export function unixAddress(path: string): Buffer {
  const bytes = Buffer.from(path, 'utf8');
  if (bytes.length > PATH_BYTES || bytes.includes(0)) {
    throw invalidArgument(`${path}: does not fit into the address of a unix socket (${String(PATH_BYTES)} bytes)`);
  }
  const address = Buffer.alloc(PATH_OFFSET + bytes.length + 1);
  address.writeUInt16LE(AF_UNIX, 0);
  bytes.copy(address, PATH_OFFSET);
  return address;
}
