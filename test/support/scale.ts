/** So many things: `whole` with GANTRY_TEST_SCALE=whole, what a run of all tests has time for otherwise. */
export function scaled(counts: { readonly small: number; readonly whole: number }): number {
  return process.env['GANTRY_TEST_SCALE'] === 'whole' ? counts.whole : counts.small;
}

/** The value that `share` (0.99) of the values do not exceed. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const found = sorted[Math.max(Math.ceil(sorted.length * share) - 1, 0)];
  if (found === undefined) throw new Error('no values');
  return found;
}
