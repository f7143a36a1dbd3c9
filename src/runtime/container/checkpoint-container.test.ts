import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { Op } from '../../lib/abort.ts';
import { FakeClock } from '../../lib/fake-clock.ts';
import { Ledger } from '../../lib/ledger.ts';
import { silentLog } from '../../lib/log.ts';
import { SingleFlight } from '../../lib/single-flight.ts';
import type { RuntimeContext } from '../context.ts';
import { ID, oneContainer } from '../fake-one-container.ts';
import { containerOwner } from '../store/owners.ts';
import { checkpointContainer, endCheckpoint } from './checkpoint-container.ts';

const op: Op = { signal: new AbortController().signal, log: silentLog };

interface Checkpointing {
  readonly rt: RuntimeContext;
  readonly at: (name: string) => string;
  /** CRIU is at work until it is settled, one for each checkpoint in their order. */
  readonly criu: PromiseWithResolvers<undefined>[];
  readonly folders: () => Promise<string[]>;
  /** The folders when CRIU is at work on so many. */
  readonly begun: (count: number) => Promise<string[]>;
}

async function checkpointing(context: TestContext): Promise<Checkpointing> {
  const dir = await mkdtemp(join(tmpdir(), 'gantry-checkpoints-'));
  context.after(() => rm(dir, { recursive: true, force: true }));
  const { rt } = await oneContainer();
  const db = { write: () => Promise.resolve(), read: () => Promise.resolve([]), close: () => Promise.resolve() };
  const criu: PromiseWithResolvers<undefined>[] = [];
  const parts = {
    ...rt,
    checkpoints: new SingleFlight(),
    checkpointFolders: new Set<string>(),
    ledger: await Ledger.open(new FakeClock(), db, db),
    releasers: { directory: (_op: Op, { key }: { key: string }) => rm(key, { recursive: true, force: true }) },
    tasks: {
      ...rt.tasks,
      checkpoint: () => {
        const work = Promise.withResolvers<undefined>();
        criu.push(work);
        return work.promise;
      },
    },
  } as unknown as RuntimeContext;
  const folders = async (): Promise<string[]> => (await readdir(dir)).filter((name) => name.startsWith('.checkpoint-'));
  return {
    rt: parts,
    at: (name) => join(dir, name),
    criu,
    folders,
    begun: async (count) => {
      while (criu.length < count) await new Promise((resolve) => setImmediate(resolve));
      return await folders();
    },
  };
}

test('a recovery that comes late takes away what an earlier daemon was making, and not what is made now', async (t) => {
  const { rt, at, criu, folders, begun } = await checkpointing(t);
  const left = join(dirname(at('x')), '.checkpoint-left');
  await rt.ledger.intend(containerOwner(ID), {
    kind: 'directory',
    key: left,
    volatile: false,
    data: { root: dirname(left) },
  });
  const made = checkpointContainer(op, rt, { containerId: ID, location: at('a.tar'), timeout: 0n });
  made.catch(() => undefined);
  const [folder] = await begun(1);
  await endCheckpoint(op, rt, ID);
  assert.deepEqual(await folders(), [folder]);
  assert.deepEqual(
    rt.ledger.entriesOf(containerOwner(ID)).map(({ key }) => key),
    [at(folder ?? '')],
  );
  criu[0]?.reject(new Error('enough'));
  await assert.rejects(made, /enough/);
  assert.deepEqual(await folders(), []);
});

test('of two for different places the first that ends takes its own folder away', async (t) => {
  const { rt, at, criu, folders, begun } = await checkpointing(t);
  const ask = (location: string): Promise<unknown> =>
    checkpointContainer(op, rt, { containerId: ID, location, timeout: 0n });
  const first = ask(at('a.tar'));
  first.catch(() => undefined);
  const [its] = await begun(1);
  const second = ask(at('b.tar'));
  second.catch(() => undefined);
  await begun(2);
  criu[0]?.reject(new Error('enough'));
  await assert.rejects(first, /enough/);
  const left = await folders();
  assert.equal(left.length, 1);
  assert.ok(!left.includes(its ?? ''));
  criu[1]?.reject(new Error('enough'));
  await assert.rejects(second, /enough/);
  assert.deepEqual(await folders(), []);
});
