import { joinErrors } from './errors.ts';

/**
 * Waits until every promise has ended, then throws what failed (joined). Unlike Promise.all nothing is still under way when
 * it throws, so undoing can begin.
 */
export async function settleAll<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  const results = await Promise.allSettled(promises);
  const errors = results.filter((result) => result.status === 'rejected').map((result): unknown => result.reason);
  if (errors.length > 0) throw joinErrors(errors);
  return results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
}

/** As {@link settleAll}, of two of different kinds. */
export async function settleBoth<A, B>(a: Promise<A>, b: Promise<B>): Promise<[A, B]> {
  await settleAll<unknown>([a, b]);
  return [await a, await b];
}
