import { readFile } from 'node:fs/promises';
import type { Op } from '../../lib/abort.ts';
import { errnoOf, isKind } from '../../lib/errors.ts';
import { namespaceOf } from '../../linux/procfs.ts';
import { parseNetDev, type InterfaceCounters } from './net-dev.ts';

/** A pod's network namespace, and who may be in it. */
export interface PodNetns {
  /** Where it is bound. */
  readonly path: string;
  /** Of the namespace; a decimal number. */
  readonly inode: string;
  /** Processes that should be in it; by now another one may have such a number. */
  readonly pids: readonly number[];
}

export interface NetworkReaderDeps {
  /** The text of /proc/net/dev inside the namespace that is bound there, read on another thread. */
  readonly readInside: (op: Op, netnsPath: string) => Promise<string>;
}

/** Reads pods' network counters: through a process that is proved to be in the namespace, else from inside. This thread enters none. */
export class NetworkReader {
  readonly #deps: NetworkReaderDeps;

  constructor(deps: NetworkReaderDeps) {
    this.#deps = deps;
  }

  /** Undefined when the namespace is gone. */
  async counters(op: Op, netns: PodNetns): Promise<InterfaceCounters[] | undefined> {
    const text = (await throughProcess(netns)) ?? (await this.#inside(op, netns.path));
    return text === undefined ? undefined : parseNetDev(text);
  }

  async #inside(op: Op, path: string): Promise<string | undefined> {
    try {
      return await this.#deps.readInside(op, path);
    } catch (error) {
      // EINVAL: the pin was taken off and left a plain file.
      if (isKind(error, 'NotFound') || errnoOf(error) === 'EINVAL') return undefined;
      throw error;
    }
  }
}

/** The namespace is looked at before and after: what was read in between is of that very process. */
async function throughProcess({ pids, inode }: PodNetns): Promise<string | undefined> {
  for (const pid of pids) {
    if (String(await namespaceOf(pid, 'net')) !== inode) continue;
    const text = await readFile(`/proc/${String(pid)}/net/dev`, 'utf8').catch(() => undefined);
    if (text !== undefined && String(await namespaceOf(pid, 'net')) === inode) return text;
  }
  return undefined;
}
