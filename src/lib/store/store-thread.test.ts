import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { chmod, mkdtemp, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { systemClock } from '../clock.ts';
import { isKind } from '../errors.ts';
import { StoreThread } from './store-thread.ts';

const schema = 'CREATE TABLE IF NOT EXISTS t (k TEXT PRIMARY KEY, v TEXT NOT NULL)';
const put = (k: string, v: string) => ({ sql: 'INSERT INTO t (k, v) VALUES (?, ?)', params: [k, v] });
let directory: string;
let store: StoreThread;

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'gantry-store-'));
  store = new StoreThread();
});
after(() => store.close());

test('a write that fails takes nothing with it from the same group commit', async () => {
  const { db } = await store.open({ path: join(directory, 'group'), schema, durable: true });
  const outcomes = await Promise.allSettled([
    db.write(put('a', '1')),
    db.write(put('b', '1'), put('a', 'again')),
    db.write(put('c', '1')),
  ]);
  assert.deepEqual(
    outcomes.map((outcome) => outcome.status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  assert.deepEqual(
    (await db.read<{ k: string }>('SELECT k FROM t ORDER BY k')).map((row) => row.k),
    ['a', 'c'],
  );
});

test('a constraint is AlreadyExists, a closed database an error', async () => {
  const { db } = await store.open({ path: join(directory, 'kinds'), schema, durable: false });
  await db.write(put('a', '1'));
  await assert.rejects(db.write(put('a', '2')), (error) => isKind(error, 'AlreadyExists'));
  await db.close();
  await assert.rejects(db.write(put('b', '2')), /closed/);
});

test('a file that is no database is set aside under a new name, never deleted', async () => {
  const path = join(directory, 'damaged');
  await writeFile(path, 'these are not the bytes of a database, whatever the name says'.repeat(100));
  const { db, setAside } = await store.open({ path, schema, durable: true });
  assert.ok(setAside?.startsWith(`${path}.damaged-`));
  assert.ok((await readdir(directory)).some((name) => name.startsWith('damaged.damaged-')));
  await db.write(put('a', '1'));
  assert.equal((await db.read('SELECT * FROM t')).length, 1);
});

test('whatever the umask, and whatever it was before: no file of a database is for others to read', async () => {
  const folder = await mkdtemp(join(directory, 'private-'));
  const path = join(folder, 'db');
  const modes = async (): Promise<string[]> => {
    const names = (await readdir(folder)).sort();
    return await Promise.all(
      names.map(async (name) => `${name} ${((await stat(join(folder, name))).mode & 0o777).toString(8)}`),
    );
  };
  const umask = process.umask(0);
  try {
    const first = await store.open({ path, schema, durable: true });
    await first.db.write(put('a', '1'));
    assert.deepEqual(await modes(), ['db 600', 'db-shm 600', 'db-wal 600']);
    await first.db.close();
    // As an older version left them, one of them set aside.
    await writeFile(`${path}.damaged-1`, 'secret', { mode: 0o644 });
    await writeFile(`${path}-wal`, '', { mode: 0o644 });
    await chmod(path, 0o644);
    const second = await store.open({ path, schema, durable: true });
    await second.db.write(put('b', '1'));
    assert.deepEqual(await modes(), ['db 600', 'db-shm 600', 'db-wal 600', 'db.damaged-1 600']);
    await second.db.close();
    await writeFile(path, 'no database any more'.repeat(500), { mode: 0o644 });
    await chmod(path, 0o644);
    const third = await store.open({ path, schema, durable: true });
    assert.equal(third.setAside, `${path}.damaged-2`);
    assert.ok(
      (await modes()).every((line) => line.endsWith(' 600')),
      String(await modes()),
    );
    await third.db.close();
  } finally {
    process.umask(umask);
  }
});

for (const durable of [true, 'soon'] as const) {
  test(`what was acknowledged is there after kill -9 (durable: ${String(durable)})`, () => killed(durable));
}

async function killed(durable: true | 'soon'): Promise<void> {
  const path = join(directory, `killed-${String(durable)}`);
  const program = `
    import { StoreThread } from ${JSON.stringify(new URL('./store-thread.ts', import.meta.url).href)};
    const { db } = await new StoreThread().open({ path: ${JSON.stringify(path)}, schema: ${JSON.stringify(schema)}, durable: ${JSON.stringify(durable)} });
    for (let i = 0; ; i++) { await db.write({ sql: 'INSERT INTO t VALUES (?, ?)', params: ['k' + i, 'v'] }); process.stdout.write(i + '\\n'); }`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  for await (const chunk of child.stdout) {
    text += String(chunk);
    if (text.split('\n').length > 50) child.kill('SIGKILL');
  }
  const acknowledged = text.split('\n').filter((line) => line !== '').length;
  const { db } = await store.open({ path, schema, durable: true });
  const [row] = await db.read<{ n: number }>('SELECT count(*) AS n FROM t');
  assert.ok((row?.n ?? 0) >= acknowledged, `${row?.n ?? 0} rows, ${acknowledged} acknowledged`);
}

test('what is durable soon is synced, and so written back, without another write', async () => {
  const path = join(directory, 'soon');
  const { db } = await store.open({ path, schema, durable: 'soon' });
  await db.write({ sql: 'INSERT INTO t VALUES (?, ?)', params: ['k', 'written back'] });
  for (let rest = 500; rest > 0 && !(await readFile(path)).includes('written back'); rest--) {
    await systemClock.sleep(20);
  }
  assert.ok((await readFile(path)).includes('written back'));
  await db.close();
});
