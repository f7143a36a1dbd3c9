import type { JournalReader, JournalSubject, JournalWriter } from '../../journal/journal.ts';
import type { Log } from '../../lib/log.ts';
import { parseOwner } from '../store/owners.ts';
import type { Orphan } from './orphan.ts';

/** What there is without its record. */
export interface LostObjects {
  readonly sandboxes: ReadonlySet<string>;
  readonly containers: ReadonlySet<string>;
}

export interface TellLostDeps {
  readonly log: Log;
  readonly journal: JournalWriter & JournalReader;
  /** The database that was to be there. */
  readonly path: string;
}

/** Whose the leftovers are, by their ids. An infra process' exit file has its sandbox's id, so those say nothing. Pure. */
export function lostObjects(orphans: readonly Orphan[]): LostObjects {
  const sandboxes = new Set<string>();
  const containers = new Set<string>();
  for (const orphan of orphans) {
    switch (orphan.kind) {
      case 'ledger': {
        const owner = parseOwner(orphan.owner);
        if (owner !== undefined) (owner.kind === 'container' ? containers : sandboxes).add(owner.id);
        break;
      }
      case 'sandbox-folder':
        sandboxes.add(orphan.id);
        break;
      case 'container-folder':
      case 'snapshot':
        containers.add(orphan.id);
        break;
      case 'cgroup': {
        const id = /\/pod([0-9a-f]{64})$/.exec(orphan.path)?.[1];
        if (id !== undefined) sandboxes.add(id);
        break;
      }
      case 'netns':
      case 'exit-file':
    }
  }
  return { sandboxes, containers };
}

/**
 * The database of the records was not there, and things of this Gantry are: says so before they are released, in the log and to who asks
 * `explain`. Nothing was here before: says nothing.
 */
export async function tellLost(
  { log, journal, path }: TellLostDeps,
  { sandboxes, containers }: LostObjects,
  layers: number,
): Promise<void> {
  if (sandboxes.size + containers.size + layers === 0) return;
  const counts = [count(sandboxes.size, 'sandbox', 'es'), count(containers.size, 'container')];
  const message =
    `${path} is not there any more: which pods ran and which images there were is lost. ` +
    `${counts.join(', ')} and ${count(layers, 'image layer')} that nobody owns by that are ended and removed now`;
  log.error({ sandboxes: [...sandboxes], containers: [...containers], layers }, message);
  journal.record({ subject: {}, what: 'runtime.records-lost', message, outcome: 'failed' });
  for (const sandboxId of sandboxes) await note(journal, { sandboxId }, 'sandbox.record-lost');
  for (const containerId of containers) await note(journal, { containerId }, 'container.record-lost');
}

/** The journal is a database of its own, and may remember which pod it was. */
async function note(journal: TellLostDeps['journal'], ids: JournalSubject, what: string): Promise<void> {
  const [known] = await journal.query(ids, 1).catch(() => []);
  const message = 'its record is gone, and what it held is released';
  journal.record({
    subject: known?.subject ?? ids,
    what,
    message,
    why: 'runtime.db is not there any more',
    outcome: 'failed',
  });
}

function count(number: number, name: string, plural = 's'): string {
  return `${String(number)} ${name}${number === 1 ? '' : plural}`;
}
