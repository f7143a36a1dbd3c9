/** What kubelet and crictl take of an answer at most. */
const LARGEST_ANSWER_BYTES = 16 << 20;
/** Of an ExecSyncResponse beside the output: tags, lengths, an exit code. */
const OTHER_FIELDS_BYTES = 1024;

/**
 * Bytes of each stream that ExecSync returns, and of both together; what comes after is thrown away while the command runs on. CRI has 16 MB of
 * each and no word for it: an answer of this length is one that was cut off, or just fitted. One that its clients do not take is of no use to
 * anybody, so what goes around the output is a part of it.
 */
export const EXEC_OUTPUT_CAP_BYTES = LARGEST_ANSWER_BYTES - OTHER_FIELDS_BYTES;

/** The beginnings of both streams, so much of each that they fit into one answer: the shorter one is cut only where it takes more than half of it. */
export function fitIntoAnswer<T extends Uint8Array>(stdout: T, stderr: T): [stdout: Uint8Array, stderr: Uint8Array] {
  const half = EXEC_OUTPUT_CAP_BYTES / 2;
  const room = (other: Uint8Array): number => Math.max(half, EXEC_OUTPUT_CAP_BYTES - other.length);
  return [stdout.subarray(0, room(stderr)), stderr.subarray(0, room(stdout))];
}
