import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, open, rmdir, stat, unlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { execFile } from '../../../src/linux/exec.ts';
import { errnoOf, isKind } from '../../../src/lib/errors.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { StoreThread, type Database } from '../../../src/lib/store/store-thread.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const op = { signal: new AbortController().signal, log: silentLog };
const schema = 'CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v TEXT NOT NULL)';
const put = (k: number) => ({ sql: 'INSERT OR REPLACE INTO t (k, v) VALUES (?, ?)', params: [k, 'v'.repeat(2_000)] });

async function run(program: string, ...args: readonly string[]): Promise<void> {
  const { code, stderr } = await execFile(op, program, args);
  assert.equal(code, 0, stderr);
}

describe('databases on a disk that is full', { skip }, () => {
  let disk: string;
  let store: StoreThread;
  let db: Database;
  let rows: number;

  /** What is free goes into the ballast, to the last byte. */
  async function fill(): Promise<void> {
    await using file = await open(join(disk, 'ballast'), 'a');
    for (const bytes of [65_536, 4_096]) {
      const block = Buffer.alloc(bytes);
      await assert.rejects(
        async () => {
          for (;;) await file.appendFile(block);
        },
        (error) => errnoOf(error) === 'ENOSPC',
      );
    }
  }
  const count = async (): Promise<number> => (await db.read<{ n: number }>('SELECT count(*) AS n FROM t'))[0]?.n ?? 0;
  const openDb = async (): Promise<void> => {
    store = new StoreThread();
    await store.reserve(join(disk, 'reserve'));
    ({ db } = await store.open({ path: join(disk, 'db'), schema, durable: true, reserve: join(disk, 'reserve') }));
  };

  before(async () => {
    disk = await mkdtemp(join(tmpdir(), 'gantry-disk-'));
  });
  after(async () => {
    await store.close();
    await run('umount', '-l', disk);
    await rmdir(disk);
  });

  test('go on writing within the room that they have, whatever takes that of the disk', async () => {
    await run('mount', '-t', 'tmpfs', '-o', 'size=16m', 'test-disk', disk);
    await openDb();
    await db.write(put(0));
    const whole = await store.reserve(join(disk, 'reserve'));
    assert.deepEqual([whole.bytes, whole.leftBytes], [1 << 20, 1 << 20]);
    for (let n = 0; n < 60; n++) {
      await fill();
      await db.write(put(n % 20));
    }
    assert.equal(await count(), 20);
  });

  test('then from the reserve, and refuse when that is used up, as a full disk, and keep what they have', async () => {
    const told: number[] = [];
    store.onReserve(({ leftBytes }) => told.push(leftBytes));
    const failed = await (async () => {
      for (let n = 20; n < 10_000; n++) {
        await fill();
        try {
          await db.write(put(n));
        } catch (error) {
          return error;
        }
      }
      return undefined;
    })();
    assert.ok(isKind(failed, 'ResourceExhausted'), String(failed));
    assert.equal(errnoOf(failed), 'ENOSPC');
    assert.match(String(failed), /the disk of .*db is full/);
    assert.deepEqual(
      told,
      [3, 2, 1, 0].map((slices) => slices * (256 << 10)),
    );
    rows = await count();
    assert.ok(rows >= 20);
  });

  test('open with not a byte free, after a clean end and after a kill', async () => {
    await db.close();
    await store.close();
    await fill();
    await openDb();
    assert.equal(await count(), rows);
    await store.close();
    const program = `
      import { StoreThread } from ${JSON.stringify(new URL('../../../src/lib/store/store-thread.ts', import.meta.url).href)};
      const { db } = await new StoreThread().open(${JSON.stringify({ path: join(disk, 'db'), schema, durable: true })});
      await db.read('SELECT 1');
      process.kill(process.pid, 'SIGKILL');`;
    await once(spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: 'inherit' }), 'exit');
    await fill();
    await openDb();
    assert.equal(await count(), rows);
  });

  test('have a whole reserve again when there is room for it', async () => {
    await unlink(join(disk, 'ballast'));
    const state = await store.reserve(join(disk, 'reserve'));
    assert.equal(state.leftBytes, state.bytes);
    assert.equal((await stat(join(disk, 'reserve'))).size, state.bytes);
    await db.write(put(1));
    await db.close();
  });
});
