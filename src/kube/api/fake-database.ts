import { DatabaseSync } from 'node:sqlite';
import type { Database, SqlValue, Statement } from '../../lib/store/store-thread.ts';

/** A database in memory, on the test's own thread. Writes can be held back or made to fail. */
export class FakeDatabase implements Database {
  readonly #db = new DatabaseSync(':memory:');
  #failures = 0;
  #gate: PromiseWithResolvers<undefined> | undefined;

  constructor(schema: string) {
    this.#db.exec(schema);
  }

  /** The next writes fail, as on a full disk. */
  failNext(count: number): void {
    this.#failures = count;
  }

  /** Writes wait until the returned function is called. */
  hold(): () => void {
    const gate = Promise.withResolvers<undefined>();
    this.#gate = gate;
    return () => {
      this.#gate = undefined;
      gate.resolve(undefined);
    };
  }

  async write(...statements: Statement[]): Promise<void> {
    const fails = this.#failures > 0;
    if (fails) this.#failures--;
    await (this.#gate?.promise ?? Promise.resolve());
    if (fails) throw new Error('database or disk is full');
    this.#db.exec('BEGIN');
    for (const { sql, params = [] } of statements) this.#db.prepare(sql).run(...params);
    this.#db.exec('COMMIT');
  }

  read<Row>(sql: string, ...params: SqlValue[]): Promise<Row[]> {
    return Promise.resolve(this.#db.prepare(sql).all(...params) as Row[]);
  }

  close(): Promise<void> {
    this.#db.close();
    return Promise.resolve();
  }
}
