/** CRI's timestamps are nanoseconds since the epoch; 0 means "not yet". */
export function toNanoseconds(wallMs: number | undefined): bigint {
  return wallMs === undefined ? 0n : BigInt(Math.round(wallMs * 1000)) * 1000n;
}
