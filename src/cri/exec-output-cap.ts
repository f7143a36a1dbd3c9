/**
 * Bytes of each stream that ExecSync returns; what comes after is thrown away while the command runs on. Kubelet and CRI's other runtimes have
 * the same cap. CRI has no word for it: an answer of this length is one that was cut off, or just fitted.
 */
export const EXEC_OUTPUT_CAP_BYTES = 16 << 20;
