import type { Op } from '../../lib/abort.ts';
import { failedPrecondition, isKind, messageOf, type GantryError } from '../../lib/errors.ts';
import { statusOfError } from '../client.ts';
import type { ServerVersion } from '../gantry-extensions.ts';

/** When client and daemon are not of one version: what cannot be understood is told as that, in one line with what to do. */

export interface Versions {
  readonly address: string;
  /** This program's, if it has one. */
  readonly own: string | undefined;
  readonly server: (op: Op) => Promise<ServerVersion>;
}

/** An answer without something that every daemon of this version sends. */
class Incomplete extends Error {}

/** The body as what it should be. Throws if a field of `needed` is not there. */
export function complete<T>(body: T, ...needed: readonly (keyof T & string)[]): T {
  const fields: unknown = body;
  const missing = needed.find((name) => typeof fields !== 'object' || fields === null || !Object.hasOwn(fields, name));
  if (missing === undefined) return body;
  throw new Incomplete(`its answer has no ${JSON.stringify(missing)}`);
}

/** What a failed question to Gantry's own half of the API comes to: that the other side is of another version, if it is that. */
export async function explainedByVersion(op: Op, error: unknown, versions: Versions): Promise<unknown> {
  if (error instanceof Incomplete) return await otherVersion(op, messageOf(error), versions);
  if (isUnknownPath(error)) return await otherVersion(op, 'it does not know the question', versions);
  return error;
}

/** An API server's answer to a path that it does not have, which is another NotFound than that of an object. */
function isUnknownPath(error: unknown): boolean {
  if (statusOfError(error)?.reason === 'MethodNotAllowed') return true;
  return isKind(error, 'NotFound') && messageOf(error).startsWith('the server could not find the requested resource');
}

async function otherVersion(op: Op, what: string, { address, own, server }: Versions): Promise<GantryError> {
  const gitVersion = await server(op).then(
    (version) => version.gitVersion,
    () => undefined,
  );
  if (gitVersion === undefined)
    return failedPrecondition(`what answers at ${address} is no gantryd, or an old one: restart gantryd`);
  const theirs = /\+gantry-(.+)$/.exec(gitVersion)?.[1];
  if (theirs === undefined)
    return failedPrecondition(`${address} is no gantryd but Kubernetes ${gitVersion}, which cannot do this`);
  return failedPrecondition(ageDifference(theirs, own, what));
}

/** Of two versions that do not understand one another: which is older, and what to do. */
export function ageDifference(daemon: string, own: string | undefined, what: string): string {
  if (own === undefined) return `the daemon (${daemon}) is older than this program: restart gantryd (${what})`;
  const order = compareVersions(daemon, own);
  if (order < 0) return `the daemon is older than this program (${daemon}, not ${own}): restart gantryd`;
  if (order > 0)
    return `the daemon is newer than this program (${daemon}, not ${own}): use the gantry that came with it`;
  return `the daemon is older than this program, though both are ${own}: restart gantryd (${what})`;
}

function compareVersions(left: string, right: string): number {
  return left.localeCompare(right, 'en', { numeric: true });
}
