import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { GantryError } from '../../lib/errors.ts';
import { FakeClock } from '../../lib/fake-clock.ts';
import { silentLog } from '../../lib/log.ts';
import type { Database, Statement } from '../../lib/store/store-thread.ts';
import { RecordStore, type RecordCodec } from './record-store.ts';

/** What is in memory and what is on disk, whatever the disk does and however calls come together. */

const SEED = 20_261_012;

interface Status {
  readonly log: readonly string[];
}

const CODEC: RecordCodec<{ readonly id: string }, Status> = {
  table: 'containers',
  noun: 'container',
  encodeMeta: () => ({ config: new Uint8Array(), facts: {} }),
  decode: (id, _config, _facts, status) => ({ meta: { id }, status: status as Status }),
};

/** Carries out what it is asked for in that order, when the test says so; and answers in that order, when the test says so. */
class SlowDisk implements Database {
  status: string | undefined;
  readonly #asked: { statement: Statement; answer: PromiseWithResolvers<undefined> }[] = [];
  readonly #answers: (() => void)[] = [];

  write(...[statement]: [Statement]): Promise<void> {
    const answer = Promise.withResolvers<undefined>();
    this.#asked.push({ statement, answer });
    return answer.promise;
  }

  get idle(): boolean {
    return this.#asked.length === 0 && this.#answers.length === 0;
  }

  carryOut(fails: boolean): void {
    const next = this.#asked.shift();
    if (next === undefined) return;
    if (!fails) this.#apply(next.statement);
    this.#answers.push(() => {
      if (fails) next.answer.reject(new GantryError('ResourceExhausted', 'disk full'));
      else next.answer.resolve(undefined);
    });
  }

  answer(): void {
    this.#answers.shift()?.();
  }

  #apply({ sql, params = [] }: Statement): void {
    if (sql.startsWith('INSERT')) this.status = String(params[3]);
    else if (sql.startsWith('DELETE')) this.status = undefined;
    else if (this.status !== undefined) this.status = String(params[0]);
  }

  read<Row>(): Promise<Row[]> {
    return Promise.resolve([]);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Rounds of half a second after which what was to be tried again has been. */
const RETRIED_BY = 6;

type Step = 'update' | 'update unless told' | 'tell' | 'remove' | 'carry out' | 'fail' | 'answer' | 'wait';

const WORD = { update: 'durable', 'update unless told': 'durable-if', tell: 'told', remove: 'removal' } as const;

/** One object, what is done to it, and what must hold after each step. */
class Story {
  readonly #store: RecordStore<{ readonly id: string }, Status>;
  readonly #disk: SlowDisk;
  readonly #clock: FakeClock;
  /** How often each word that was told first was said to be on disk. */
  readonly #saidPersisted = new Map<string, number>();
  readonly #lies: string[] = [];
  #words = 0;
  #open = 0;
  #removed = false;

  private constructor(store: RecordStore<{ readonly id: string }, Status>, disk: SlowDisk, clock: FakeClock) {
    this.#store = store;
    this.#disk = disk;
    this.#clock = clock;
  }

  static async begin(): Promise<Story> {
    const clock = new FakeClock();
    const disk = new SlowDisk();
    const store = await RecordStore.open({ db: disk, clock, log: silentLog }, CODEC);
    const inserted = store.insert({ id: 'a' }, { log: [] });
    disk.carryOut(false);
    disk.answer();
    await inserted;
    return new Story(store, disk, clock);
  }

  async take(step: Step): Promise<void> {
    switch (step) {
      case 'update':
      case 'update unless told':
      case 'tell':
      case 'remove':
        this.#ask(step);
        break;
      case 'carry out':
      case 'fail':
        this.#disk.carryOut(step === 'fail');
        break;
      case 'answer':
        this.#disk.answer();
        break;
      case 'wait':
        await this.#clock.advance(500);
        break;
    }
    await settle();
    this.#check();
  }

  /** From now on the disk does what it is asked for. */
  async end(): Promise<void> {
    for (let round = 0; round < RETRIED_BY || !this.#disk.idle; round++) {
      assert.ok(round < 1_000, 'it goes on for ever');
      await this.take('carry out');
      await this.take('answer');
      await this.take('wait');
    }
    assert.deepEqual(this.#onDisk(), this.#store.get('a')?.status.log, 'the disk has something else than the memory');
    assert.deepEqual(this.#store.unpersisted, []);
    assert.equal(this.#open, 0, 'a call was never answered');
    for (const [word, times] of this.#saidPersisted)
      assert.ok(times === 1 || this.#removed, `${word}: ${String(times)}`);
  }

  #ask(step: keyof typeof WORD): void {
    const word = `${WORD[step]}-${String(this.#words++)}`;
    const add = ({ log }: Status): Status => ({ log: [...log, word] });
    if (step === 'tell') {
      const said = (): void => {
        this.#saidPersisted.set(word, (this.#saidPersisted.get(word) ?? 0) + 1);
        if (this.#onDisk()?.includes(word) === false) this.#lies.push(word);
      };
      if (this.#store.publishFirst('a', add, said) !== undefined) this.#saidPersisted.set(word, 0);
      return;
    }
    this.#open++;
    const unlessTold = ({ log }: Status): Status => {
      if (log.at(-1)?.startsWith('told') === true) throw new Error('does not apply any more');
      return add({ log });
    };
    const called =
      step === 'remove'
        ? this.#store.remove('a').then(() => (this.#removed = true))
        : this.#store.update('a', step === 'update' ? add : unlessTold);
    const over = (): void => {
      this.#open--;
    };
    called.then(over, over);
  }

  /** What update has made visible, and so what it has returned, is on disk from then on. */
  #check(): void {
    assert.deepEqual(this.#lies, [], 'said to be on disk');
    const seen = this.#store.get('a')?.status.log ?? [];
    const disk = this.#onDisk();
    if (disk === undefined) return;
    for (const word of seen) {
      if (word.startsWith('durable'))
        assert.ok(disk.includes(word), `${word} is seen, and not on disk: ${disk.join()}`);
      else if (!disk.includes(word))
        assert.ok(this.#store.unpersisted.includes('a'), `${word} is not said to be missing`);
    }
  }

  #onDisk(): readonly string[] | undefined {
    return this.#disk.status === undefined ? undefined : (JSON.parse(this.#disk.status) as Status).log;
  }
}

async function tell(...steps: readonly Step[]): Promise<void> {
  const story = await Story.begin();
  for (const step of steps) await story.take(step);
  await story.end();
}

test('what was told first and is tried again does not go behind an update that is being written', async () => {
  await tell('tell', 'fail', 'answer', 'wait', 'update', 'wait', 'carry out', 'answer');
});

test('of two updates at once neither takes the other off the disk', async () => {
  await tell('update', 'update', 'carry out', 'answer', 'carry out', 'answer');
  await tell('update', 'update unless told', 'carry out', 'answer', 'tell', 'carry out', 'answer', 'fail', 'answer');
});

test('whatever the disk does and however calls come together, what is visible comes to be on disk and stays there', async () => {
  const steps = fc.oneof(
    { weight: 3, arbitrary: fc.constant<Step>('update') },
    { weight: 1, arbitrary: fc.constant<Step>('update unless told') },
    { weight: 3, arbitrary: fc.constant<Step>('tell') },
    { weight: 1, arbitrary: fc.constantFrom<Step>('wait', 'wait', 'wait', 'wait', 'wait', 'remove') },
    { weight: 3, arbitrary: fc.constant<Step>('carry out') },
    { weight: 2, arbitrary: fc.constant<Step>('fail') },
    { weight: 4, arbitrary: fc.constant<Step>('answer') },
    { weight: 3, arbitrary: fc.constant<Step>('wait') },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(steps, { maxLength: 40 }), (story) => tell(...story)),
    { seed: SEED, numRuns: 300 },
  );
});
