const [MIN_SHARES, MAX_SHARES] = [2, 262_144];
const [MIN_WEIGHT, MAX_WEIGHT] = [1, 10_000];

/** What the kernel makes of a number of shares: 2 … 262144. */
export function boundedShares(shares: number): number {
  return Math.min(Math.max(shares, MIN_SHARES), MAX_SHARES);
}

/** cpu.shares (2 … 262144) on the scale of cpu.weight (1 … 10000), linearly as the kernel documents it. */
export function sharesToWeight(shares: number): number {
  return (
    MIN_WEIGHT +
    Math.floor(((boundedShares(shares) - MIN_SHARES) * (MAX_WEIGHT - MIN_WEIGHT)) / (MAX_SHARES - MIN_SHARES))
  );
}

/**
 * The same as newer OCI runtimes count it (crun 1.23, runc 1.4): a curve on which v1's default, 1024 shares, is v2's default, weight 100.
 */
export function sharesToWeightByCurve(shares: number): number {
  const exponent = Math.log2(boundedShares(shares));
  return Math.min(MAX_WEIGHT, Math.ceil(10 ** ((exponent * exponent + 125 * exponent) / 612 - 7 / 34)));
}

/**
 * As whoever made the cgroup counts: two containers must not differ because one was updated and the other was not. `known` are the
 * shares that were asked for before and the weight that they have become.
 */
export function weightLike(
  shares: number,
  known: { readonly shares: number | undefined; readonly weight: number },
): number {
  if (known.shares === undefined || sharesToWeight(known.shares) === known.weight) return sharesToWeight(shares);
  return sharesToWeightByCurve(known.shares) === known.weight ? sharesToWeightByCurve(shares) : sharesToWeight(shares);
}
