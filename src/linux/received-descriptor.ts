import koffi from 'koffi';
import { errnoError, errnoName } from './errno.ts';
import { libc } from './libc.ts';

const MSG_DONTWAIT = 0x40;
const MSG_CMSG_CLOEXEC = 0x40000000;
const SOL_SOCKET = 1;
const SCM_RIGHTS = 1;

/** struct msghdr, struct iovec and struct cmsghdr of the 64-bit architectures, in one piece of memory with what they point to. */
const HEADER_BYTES = 56;
const VECTOR_BYTES = 16;
const DATA_BYTES = 4096;
/** A cmsghdr of 16 bytes and room for a few descriptors more than the one that is wanted, so that none is lost unseen. */
const CONTROL_BYTES = 64;
const CMSG_HEADER_BYTES = 16;
const CONTROL_LENGTH_OFFSET = 40;

/**
 * Takes the descriptor (SCM_RIGHTS) that somebody has sent over a connected unix socket; close-on-exec. Undefined when nothing has
 * come yet, or what came carries none. Does not wait.
 */
export function receiveDescriptor(socket: number): number | undefined {
  const vector = Buffer.alloc(VECTOR_BYTES);
  const data = koffi.alloc('uint8_t', DATA_BYTES) as unknown;
  const control = koffi.alloc('uint8_t', CONTROL_BYTES) as unknown;
  const vectorMemory = koffi.alloc('uint8_t', VECTOR_BYTES) as unknown;
  try {
    vector.writeBigUInt64LE(koffi.address(data), 0);
    vector.writeBigUInt64LE(BigInt(DATA_BYTES), 8);
    koffi.encode(vectorMemory, 'uint8_t', vector, VECTOR_BYTES);
    const header = Buffer.alloc(HEADER_BYTES);
    header.writeBigUInt64LE(koffi.address(vectorMemory), 16);
    header.writeBigUInt64LE(1n, 24);
    header.writeBigUInt64LE(koffi.address(control), 32);
    header.writeBigUInt64LE(BigInt(CONTROL_BYTES), CONTROL_LENGTH_OFFSET);
    if (libc.recvmsg(socket, header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0) {
      const errno = libc.errno();
      if (errnoName(errno) === 'EAGAIN') return undefined;
      throw errnoError(errno, 'receive a descriptor');
    }
    const length = Number(header.readBigUInt64LE(CONTROL_LENGTH_OFFSET));
    return firstDescriptor(Buffer.from(koffi.decode(control, 'uint8_t', CONTROL_BYTES) as Uint8Array), length);
  } finally {
    for (const memory of [data, control, vectorMemory]) koffi.free(memory);
  }
}

/** Closes those that come with it. */
function firstDescriptor(control: Buffer, length: number): number | undefined {
  if (length < CMSG_HEADER_BYTES + 4) return undefined;
  if (control.readInt32LE(8) !== SOL_SOCKET || control.readInt32LE(12) !== SCM_RIGHTS) return undefined;
  const end = Math.min(Number(control.readBigUInt64LE(0)), length);
  const descriptors: number[] = [];
  for (let at = CMSG_HEADER_BYTES; at + 4 <= end; at += 4) descriptors.push(control.readInt32LE(at));
  for (const extra of descriptors.slice(1)) libc.close(extra);
  return descriptors[0];
}
