import { extname } from 'node:path';

/** The URL of a worker module beside the caller: `.ts` in a checkout, `.cjs` in the built package. */
export function workerUrl(callerUrl: string, name: string): URL {
  return new URL(`${name}${extname(callerUrl)}`, callerUrl);
}
