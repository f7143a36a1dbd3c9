import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { GantryError } from '../../src/lib/errors.ts';
import type { Database, SqlValue, Statement } from '../../src/lib/store/store-thread.ts';
import type { Life, Schedule } from './schedule.ts';

/**
 * One real SQLite database, in memory, that outlives the simulated daemon. Calls are carried out in the order in which they were
 * made, when the schedule says; a process that is killed leaves a beginning of them done.
 */
export class SimDisk {
  readonly #name: string;
  readonly #db = new DatabaseSync(':memory:');
  readonly #prepared = new Map<string, StatementSync>();
  /** Ids are random, the order of rows must not be: it is the one in which they were first seen. */
  readonly #seen = new Map<string, number>();
  full = false;

  constructor(name: string, schema: string) {
    this.#name = name;
    this.#db.exec(schema);
  }

  connect(schedule: Schedule, life: Life): Database {
    const asked = { what: `disk ${this.#name}`, subject: '', line: this.#name };
    return {
      write: (...statements) => schedule.ask(life, asked, () => this.write(...statements)),
      read: <Row>(sql: string, ...params: SqlValue[]) =>
        schedule.ask(life, asked, () => this.read<Row>(sql, ...params)),
      close: () => Promise.resolve(),
    };
  }

  write(...statements: Statement[]): void {
    if (this.full) throw new GantryError('ResourceExhausted', 'store: database or disk is full');
    for (const { params = [] } of statements) for (const param of params) this.#placeOf(param);
    const [only] = statements;
    if (only !== undefined && statements.length === 1) {
      this.#prepare(only.sql).run(...(only.params ?? []));
      return;
    }
    this.#db.exec('BEGIN');
    try {
      for (const { sql, params = [] } of statements) this.#prepare(sql).run(...params);
      this.#db.exec('COMMIT');
    } catch (error) {
      this.#db.exec('ROLLBACK');
      throw error;
    }
  }

  read<Row>(sql: string, ...params: SqlValue[]): Row[] {
    const rows = this.#prepare(sql).all(...params);
    return rows.sort((a, b) => this.#placeOf(a['id'] ?? a['owner']) - this.#placeOf(b['id'] ?? b['owner'])) as Row[];
  }

  #placeOf(value: unknown): number {
    const id = typeof value === 'string' ? (/[0-9a-f]{64}/.exec(value)?.[0] ?? '') : '';
    const place = this.#seen.get(id) ?? this.#seen.size;
    this.#seen.set(id, place);
    return place;
  }

  close(): void {
    this.#db.close();
  }

  #prepare(sql: string): StatementSync {
    let statement = this.#prepared.get(sql);
    if (statement === undefined) this.#prepared.set(sql, (statement = this.#db.prepare(sql)));
    return statement;
  }
}
