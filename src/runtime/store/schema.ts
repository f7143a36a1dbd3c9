import { LEDGER_SCHEMA } from '../../lib/ledger-rows.ts';

/**
 * `<root>/runtime.db`. `config` is the CRI configuration exactly as it came (encoded) and `facts` what we decided about it:
 * both are written once. `status` is swapped whole.
 */
export const DURABLE_SCHEMA = `
  CREATE TABLE IF NOT EXISTS sandboxes (
    id TEXT PRIMARY KEY, config BLOB NOT NULL, facts TEXT NOT NULL, status TEXT NOT NULL
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS containers (
    id TEXT PRIMARY KEY, config BLOB NOT NULL, facts TEXT NOT NULL, status TEXT NOT NULL
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS damaged (
    kind TEXT NOT NULL, id TEXT NOT NULL, config BLOB, facts TEXT, status TEXT, reason TEXT NOT NULL, since_wall_ms INTEGER NOT NULL,
    PRIMARY KEY (kind, id)
  ) WITHOUT ROWID;
  ${LEDGER_SCHEMA}`;

/** `<state>/volatile.db`: the part of the ledger that dies with the boot whose id is kept beside it. */
export const VOLATILE_SCHEMA = `
  CREATE TABLE IF NOT EXISTS boot (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL);
  ${LEDGER_SCHEMA}`;
