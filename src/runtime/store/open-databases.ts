import { stat } from 'node:fs/promises';
import type { Clock } from '../../lib/clock.ts';
import { Ledger } from '../../lib/ledger.ts';
import type { Log } from '../../lib/log.ts';
import type { Database, StoreThread } from '../../lib/store/store-thread.ts';
import { checkLedgerData } from './ledger-data.ts';
import type { RuntimePaths } from './paths.ts';
import { DURABLE_SCHEMA, VOLATILE_SCHEMA } from './schema.ts';

export interface OpenedDatabases {
  readonly durable: Database;
  readonly volatile: Database;
  readonly ledger: Ledger;
}

/**
 * Opens both databases. One that is damaged is set aside, said loudly, and an empty one takes its place: what it held is found
 * as orphans then. The volatile ledger of another boot is emptied: nothing that it names exists any more.
 */
export async function openDatabases(
  store: StoreThread,
  paths: RuntimePaths,
  {
    clock,
    log,
    bootId,
    schema,
    reserve,
  }: { clock: Clock; log: Log; bootId: string; schema: string; reserve?: string | undefined },
): Promise<OpenedDatabases> {
  // Where /run is a disk of its own, what is given up on the other one makes no room there.
  const sameDisk = (await stat(paths.root)).dev === (await stat(paths.state)).dev;
  const open = async (path: string, ownSchema: string, isDurable: boolean): Promise<Database> => {
    const ofDisk = reserve !== undefined && (isDurable || sameDisk) ? { reserve } : {};
    const { db, setAside } = await store.open({ path, schema: ownSchema, durable: isDurable, ...ofDisk });
    if (setAside !== undefined) log.error({ path, setAside }, 'a damaged database was set aside: its content is lost');
    return db;
  };
  const durable = await open(paths.database, `${DURABLE_SCHEMA}${schema}`, true);
  const volatile = await open(paths.volatileDatabase, VOLATILE_SCHEMA, false);
  const [boot] = await volatile.read<{ id: string }>('SELECT id FROM boot');
  if (boot?.id !== bootId) {
    await volatile.write(
      { sql: 'DELETE FROM ledger' },
      { sql: 'INSERT OR REPLACE INTO boot (one, id) VALUES (1, ?)', params: [bootId] },
    );
  }
  return { durable, volatile, ledger: await Ledger.open(clock, durable, volatile, { log, check: checkLedgerData }) };
}
